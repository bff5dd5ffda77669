"""Regular expressions that mean the same in Java (Spark) and in RE2 (DuckDB)."""

from __future__ import annotations

_ANY = r"[^\n\r\x{85}\x{2028}\x{2029}]"
_END = r"(?:\r\n|[\n\r\x{85}\x{2028}\x{2029}])?\z"
_PLAIN = frozenset(" _-/:,;@#%&=<>!~'\"")
_QUANTIFIERS = "*+?"


def re2_pattern(java: str) -> str | None:
    """``java`` for RE2, with the same matches; None if a part of it may differ.

    The dot and the dollar know more line ends in Java. Escapes, flags, look-around and possessive
    quantifiers are not translated.
    """
    found: list[str] = []
    place, depth = 0, 0
    before = "("
    while place < len(java):
        char = java[place]
        if char == "[":
            end = java.find("]", place + 2)
            content = java[place + 1 : end]
            if end < 0 or not _is_plain_class(content):
                return None
            found.append(java[place : end + 1])
            place, before = end + 1, "]"
            continue
        if char.isalnum() or char in _PLAIN:
            found.append(char)
        elif char == ".":
            found.append(_ANY)
        elif char == "^" and before in "(|":
            found.append("^")
        elif char == "$" and java[place + 1 : place + 2] in ("", ")", "|"):
            found.append(_END)
        elif char in _QUANTIFIERS and before not in "(|^$*+?":
            found.append(char)
        elif char == "(" and java[place + 1 : place + 2] != "?":
            depth += 1
            found.append("(")
        elif char == ")" and depth:
            depth -= 1
            found.append(")")
        elif char == "|":
            found.append("|")
        else:
            return None
        place, before = place + 1, char
    return None if depth else "".join(found)


def _is_plain_class(content: str) -> bool:
    chars = content.removeprefix("^")
    return bool(chars) and all(c.isascii() and (c.isalnum() or c in " _-.:/,;@#=") for c in chars)
