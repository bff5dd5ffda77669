"""Regular expressions as brokers read them (RE2's syntax, KIP-848 "Regex Based Subscriptions").

An expression is rewritten for Python's ``re``, or refused where RE2 refuses it: look-around, back
references, possessive and nested repetition, counts above 1,000. Topic names are ASCII, so a class
is the set of ASCII characters in it, and line modes and greediness make no difference.
"""

from __future__ import annotations

import re
import unicodedata
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
    # Unicode's general categories
    "C[cfos]?|L[lmotu]?|M[cen]?|N[dlo]?|P[cdefios]?|S[ckmo]?|Z[lps]?"
)
_SCRIPT = re.compile(
    "Arabic|Armenian|Bengali|Bopomofo|Braille|Cherokee|Common|Coptic|Cyrillic|Devanagari|Ethiopic|"
    "Georgian|Greek|Gujarati|Gurmukhi|Han|Hangul|Hebrew|Hiragana|Inherited|Kannada|Katakana|Khmer|"
    "Lao|Latin|Malayalam|Mongolian|Myanmar|Oriya|Runic|Sinhala|Syriac|Tamil|Telugu|Thaana|Thai|"
    "Tibetan|Yi"
)

_SCRIPTS: dict[str, Callable[[str], bool]] = {
    "Latin": str.isalpha,
    "Common": lambda char: not char.isalpha(),
}
"""Scripts that contain ASCII characters."""


def compile_re2(expression: str, *, short_names: bool = True) -> re.Pattern[str]:
    """Compile an expression for ``fullmatch``. Raises ValueError where RE2 refuses it.

    ``short_names``: a group may be named with ``(?<name>`` as well as ``(?P<name>`` (RE2J 1.8).
    """
    return re.compile(_Rewriter(expression, short_names).rewritten(), re.DOTALL)


class _Rewriter:
    """Rewrites an expression in one pass from left to right."""

    def __init__(self, expression: str, short_names: bool) -> None:
        self.text = expression
        self.name = r"\?P?<(\w+)>" if short_names else r"\?P<(\w+)>"
        self.named = r"\?P?<" if short_names else r"\?P<"
        self.names: set[str] = set()
        self.at = 0
        self.out: list[str] = []
        self.atom: int | None = None
        """Index in ``out`` where the operand of a following repetition begins."""
        self.ignores_case = False
        self.opened: list[tuple[int, bool]] = []
        """For each open group, where it begins and whether case was ignored before it."""

    def rewritten(self) -> str:
        while self.at < len(self.text):
            self._next()
        if self.opened:
            raise ValueError("missing closing )")
        return "".join(self.out)

    def _take(self, pattern: str) -> re.Match[str] | None:
        found = re.compile(pattern, re.ASCII).match(self.text, self.at)
        if found is not None:
            self.at = found.end()
        return found

    def _emit(self, text: str) -> None:
        self.atom = len(self.out)
        self.out.append(text)

    def _next(self) -> None:
        if found := self._take(r"\\Q(.*?)(?:\\E|$)"):
            for char in found[1]:
                self._emit(self._class_of({char}))
        elif (found := self._take(r"\{(\d+)(?:,(\d*))?\}")) or (found := self._take("[*+?]")):
            self._repeat(found)
        elif self._take(r"\{"):
            self._emit(r"\{")
            self._refuse_repetition()
        elif found := self._take(r"\\([AzbB])"):
            self._emit({"A": r"(?:\A)", "z": r"(?:\Z)"}.get(found[1], rf"(?:\{found[1]})"))
        elif found := self._take(r"[()|\[^$.]"):
            self._sign(found[0])
        else:
            self._emit(self._class_of(self._one()))

    def _sign(self, sign: str) -> None:
        if sign == "(":
            self._open()
        elif sign == ")":
            if not self.opened:
                raise ValueError("unexpected )")
            self.out.append(")")
            self.atom, self.ignores_case = self.opened.pop()
        elif sign == "|":
            self.out.append("|")
            self.atom = None
        elif sign == "[":
            self._emit(self._class_of(self._members()))
        else:
            self._emit({"^": r"(?:\A)", "$": r"(?:\Z)"}.get(sign, sign))

    def _repeat(self, found: re.Match[str]) -> None:
        if self.atom is None:
            raise ValueError("missing argument to repetition operator")
        if found.re.groups:
            least, most = int(found[1]), int(found[2] or found[1])
            if max(least, most) > _MOST_REPEATS or most < least:
                raise ValueError("invalid repeat count")
        self._take(r"\?")  # lazy or greedy makes no difference for a full match
        self._refuse_repetition()
        self.out[self.atom :] = [f"(?:{''.join(self.out[self.atom :])}){found[0]}"]

    def _refuse_repetition(self) -> None:
        if re.compile(r"[*+?]|\{\d+(,\d*)?\}").match(self.text, self.at):
            raise ValueError("invalid nested repetition operator")

    def _open(self) -> None:
        before = self.ignores_case
        if name := self._take(self.name):
            if name[1] in self.names:
                raise ValueError("duplicate capture group name")
            self.names.add(name[1])
        elif self._take(self.named):
            raise ValueError("invalid named capture")
        elif self._take(r"\?") is not None:
            found = self._take(r"([imsU]*)(?:-([imsU]+))?([:)])")
            if found is None:
                raise ValueError("invalid or unsupported Perl syntax")
            if "i" in found[1] + (found[2] or ""):
                self.ignores_case = "i" not in (found[2] or "")
            if found[3] == ")":
                return
        self.opened.append((len(self.out), before))
        self.out.append("(?:")
        self.atom = None

    # Classes and single characters: each is a set of ASCII characters

    def _members(self) -> set[str]:
        """The characters between brackets; the opening bracket is already consumed."""
        negated = self._take(r"\^") is not None
        members: set[str] = set()
        first = True
        while first or not self._take(r"\]"):
            first = False
            if found := self._take(r"\[:(\^?)(\w*):\]"):
                if found[2] not in _POSIX:
                    raise ValueError("invalid character class range")
                members |= self._those(_POSIX[found[2]], negated=bool(found[1]))
                continue
            low = self._one()
            if len(low) == 1 and self._take(r"-(?!\])"):
                high = self._one()
                if len(high) != 1:
                    raise ValueError("invalid escape sequence")
                if max(high) < max(low):
                    raise ValueError("invalid character class range")
                members |= {chr(code) for code in range(ord(min(low)), ord(max(high)) + 1)}
            else:
                members |= low
        return self._those(members.__contains__, negated=negated)

    def _one(self) -> set[str]:
        """The next character, or the characters of the next class."""
        if found := self._take(r"[^\\]"):
            return {found[0]}
        self._take(r"\\")
        if found := self._take(r"([dswDSW])"):
            return self._those(_PERL[found[1].lower()], negated=found[1].isupper())
        if found := self._take(r"([pP])(?:\{(\^?)(\w+)\}|(\w))"):
            return self._property(found[3] or found[4], negated=(found[1] == "P") != bool(found[2]))
        if found := self._take(r"x(?:\{([0-9a-fA-F]+)\}|([0-9a-fA-F]{2}))"):
            return {chr(int(found[1] or found[2], 16))}
        if found := self._take(r"0[0-7]{0,2}|[1-7][0-7]{1,2}"):
            return {chr(int(found[0], 8))}
        if found := self._take(r"[afnrtv]"):
            return {_CONTROLS[found[0]]}
        if found := self._take(r"[^a-zA-Z0-9]"):
            return {found[0]}
        raise ValueError(self._why_no_character())

    def _why_no_character(self) -> str:
        before = self.text[: self.at]
        if self.at < len(self.text):
            return "invalid escape sequence"
        ends_in_escape = before.endswith("\\") and not before.endswith("\\\\")
        return "trailing backslash at end of expression" if ends_in_escape else "missing closing ]"

    def _property(self, name: str, *, negated: bool) -> set[str]:
        """The ASCII characters of a Unicode category or script."""
        if _CATEGORY.fullmatch(name):
            return self._those(lambda c: unicodedata.category(c).startswith(name), negated=negated)
        if _SCRIPT.fullmatch(name):
            return self._those(_SCRIPTS.get(name, lambda _: False), negated=negated)
        if name == "Any":
            return self._those(lambda _: True, negated=negated)
        raise ValueError("invalid character class range")

    def _those(self, test: Callable[[str], bool], *, negated: bool = False) -> set[str]:
        """The characters of a class; case is ignored before the class is negated."""
        members = self._cased({char for char in _ASCII if test(char)})
        return set(_ASCII) - members if negated else members

    def _cased(self, members: set[str]) -> set[str]:
        return members | {char.swapcase() for char in members} if self.ignores_case else members

    def _class_of(self, members: set[str]) -> str:
        either = sorted(self._cased(members))
        if not either:
            return "(?!)"
        return "[" + "".join(map(re.escape, either)) + "]" if either[1:] else re.escape(either[0])
