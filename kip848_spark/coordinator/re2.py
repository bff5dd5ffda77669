"""Regular expressions as brokers read them (RE2's language, KIP-848 "Regex Based Subscriptions").

An expression is rewritten for Python's ``re``, or refused where RE2 refuses it: look-around, back
references, possessive and nested repetition, counts above 1,000. Topic names are ASCII, so a class
is the set of ASCII characters in it, and what concerns lines or greed changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_ASCII = [chr(code) for code in range(128)]
_MOST_REPEATS = 1_000
_CONTROLS = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_PERL: dict[str, Callable[[str], bool]] = {
    "d": str.isdigit,
    "s": lambda char: char in "\t\n\f\r ",
    "w": lambda char: char.isalnum() or char == "_",
}
_POSIX: dict[str, Callable[[str], bool]] = {
    "alnum": str.isalnum,
    "alpha": str.isalpha,
    "ascii": lambda _: True,
    "blank": lambda char: char in "\t ",
    "cntrl": lambda char: char < " " or char == "\x7f",
    "digit": str.isdigit,
    "graph": lambda char: "!" <= char <= "~",
    "lower": str.islower,
    "print": lambda char: " " <= char <= "~",
    "punct": lambda char: "!" <= char <= "~" and not char.isalnum(),
    "space": lambda char: char in "\t\n\v\f\r ",
    "upper": str.isupper,
    "word": _PERL["w"],
    "xdigit": lambda char: char in "0123456789abcdefABCDEF",
}
_CATEGORY = re.compile(
    "C[cfos]?|L[lmotu]?|M[cen]?|N[dlo]?|P[cdefios]?|S[ckmo]?|Z[lps]?"  # Unicode's general ones
)
_SCRIPT = re.compile(
    "Arabic|Armenian|Bengali|Bopomofo|Braille|Cherokee|Common|Coptic|Cyrillic|Devanagari|Ethiopic|"
    "Georgian|Greek|Gujarati|Gurmukhi|Han|Hangul|Hebrew|Hiragana|Inherited|Kannada|Katakana|Khmer|"
    "Lao|Latin|Malayalam|Mongolian|Myanmar|Oriya|Runic|Sinhala|Syriac|Tamil|Telugu|Thaana|Thai|"
    "Tibetan|Yi"
)


def compile_re2(expression: str) -> re.Pattern[str]:
    """The expression for ``fullmatch``; raises ValueError where RE2 does not take it."""
    return re.compile(_Rewriter(expression).rewritten(), re.DOTALL)


class _Rewriter:
    """One pass over an expression, from left to right."""

    def __init__(self, expression: str) -> None:
        self.text = expression
        self.at = 0
        self.out: list[str] = []
        self.opened: list[list[str]] = [[]]
        """For each group that is open, the flags set within it: a group of their own each."""
        self.repeatable = False

    def rewritten(self) -> str:
        while self.at < len(self.text):
            self._next()
        if len(self.opened) > 1:
            raise ValueError("a parenthesis is not closed")
        self.out.append(")" * len(self.opened[0]))
        return "".join(self.out)

    def _take(self, pattern: str) -> re.Match[str] | None:
        found = re.compile(pattern, re.ASCII).match(self.text, self.at)
        if found is not None:
            self.at = found.end()
        return found

    def _emit(self, text: str, *, repeatable: bool = True) -> None:
        self.out.append(text)
        self.repeatable = repeatable

    def _next(self) -> None:
        if found := self._take(r"\\Q(.*?)(?:\\E|$)"):
            for char in found[1]:
                self._emit(re.escape(char))
        elif (found := self._take(r"\{(\d+)(?:(,)(\d*))?\}")) or (found := self._take("[*+?]")):
            self._repeat(found)
        elif found := self._take(r"\\([AzbB])"):
            self._emit({"A": r"(?:\A)", "z": r"(?:\Z)"}.get(found[1], rf"(?:\{found[1]})"))
        elif found := self._take(r"[()|\[^$.]"):
            self._sign(found[0])
        else:
            self._emit(_class_of(self._one(), single=True))

    def _sign(self, sign: str) -> None:
        if sign == "(":
            self._open()
        elif sign == ")":
            if len(self.opened) == 1:
                raise ValueError("a parenthesis was not opened")
            self._emit(")" * (1 + len(self.opened.pop())))
        elif sign == "|":
            flags = self.opened[-1]
            self._emit(")" * len(flags) + "|" + "".join(flags), repeatable=False)
        elif sign == "[":
            self._emit(_class_of(self._members()))
        else:
            self._emit({"^": r"(?:\A)", "$": r"(?:\Z)"}.get(sign, sign))

    def _repeat(self, found: re.Match[str]) -> None:
        if not self.repeatable:
            raise ValueError(f"{found[0]} has nothing to repeat")
        if found.re.groups and found[1] is not None:
            least, most = int(found[1]), int(found[3] or found[1])
            if max(least, most) > _MOST_REPEATS or most < least:
                raise ValueError(f"{found[0]} is no count")
        self._take(r"\?")  # the shortest match or the longest: both are a match
        if re.compile(r"[*+?]|\{\d+(,\d*)?\}").match(self.text, self.at):
            raise ValueError("a repetition is repeated")
        self._emit(found[0])

    def _open(self) -> None:
        if self._take(r"\?P?<\w+>") or not self._take(r"\?"):
            self.opened.append([])
            self._emit("(", repeatable=False)
            return
        found = self._take(r"([imsU]*)(?:(-)([imsU]+))?([:)])")
        if found is None:
            raise ValueError("no such group or flag")
        on, off = found[1], found[3] or ""
        flags = "(?i:" if "i" in on else "(?-i:" if "i" in off else "(?:"
        if found[4] == ":":
            self.opened.append([])
        else:
            self.opened[-1].append(flags)
        self._emit(flags, repeatable=False)

    # Classes and single characters: each is a set of ASCII characters

    def _members(self) -> set[str]:
        """What is between brackets, the first of which was taken."""
        negated = self._take(r"\^") is not None
        members: set[str] = set()
        first = True
        while first or not self._take(r"\]"):
            first = False
            if self.at >= len(self.text):
                raise ValueError("a class is not closed")
            if found := self._take(r"\[:(\^?)(\w*):\]"):
                if found[2] not in _POSIX:
                    raise ValueError(f"no class {found[0]}")
                members |= _those(_POSIX[found[2]], negated=bool(found[1]))
                continue
            low = self._one()
            if len(low) == 1 and self._take(r"-(?!\])"):
                high = self._one()
                if len(high) != 1 or max(high) < max(low):
                    raise ValueError("a range that is none")
                members |= {chr(code) for code in range(ord(min(low)), ord(max(high)) + 1)}
            else:
                members |= low
        return _those(lambda char: char in members, negated=negated)

    def _one(self) -> set[str]:
        """The character, or the characters, that come next."""
        if not self._take(r"\\"):
            char = self.text[self.at]
            self.at += 1
            return {char}
        if found := self._take(r"([dswDSW])"):
            return _those(_PERL[found[1].lower()], negated=found[1].isupper())
        if found := self._take(r"([pP])(?:\{(\^?)(\w+)\}|(\w))"):
            return _property(found[3] or found[4], negated=(found[1] == "P") != bool(found[2]))
        if found := self._take(r"x(?:\{([0-9a-fA-F]+)\}|([0-9a-fA-F]{2}))"):
            return {chr(int(found[1] or found[2], 16))}
        if found := self._take(r"0[0-7]{0,2}|[1-7][0-7]{1,2}"):
            return {chr(int(found[0], 8))}
        if found := self._take(r"[afnrtv]"):
            return {_CONTROLS[found[0]]}
        if found := self._take(r"[^a-zA-Z0-9]"):
            return {found[0]}
        raise ValueError("no such escape")


def _those(test: Callable[[str], bool], *, negated: bool = False) -> set[str]:
    return {char for char in _ASCII if test(char) != negated}


def _property(name: str, *, negated: bool) -> set[str]:
    """A Unicode category or script, as far as it is ASCII."""
    import unicodedata

    if _CATEGORY.fullmatch(name):
        return _those(lambda char: unicodedata.category(char).startswith(name), negated=negated)
    if _SCRIPT.fullmatch(name):
        scripts = {"Latin": str.isalpha, "Common": lambda char: not char.isalpha()}
        return _those(scripts.get(name, lambda _: False), negated=negated)
    if name == "Any":
        return _those(lambda _: True, negated=negated)
    raise ValueError(f"no category or script {name}")


def _class_of(members: set[str], *, single: bool = False) -> str:
    if single and len(members) == 1:
        return re.escape(next(iter(members)))
    if not members:
        return "(?!)"
    return "[" + "".join(re.escape(char) for char in sorted(members)) + "]"
