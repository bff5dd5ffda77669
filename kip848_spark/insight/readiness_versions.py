"""Ranges of Kafka releases, and whether the brokers are in one as far as their release is known."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

Version = tuple[int, int, int]

_PART = re.compile(r"(<=|>=|<|>|==)\s*([0-9.]+)")
_COMPARE: dict[str, Callable[[Version, Version], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
}


def parse_version(text: str) -> Version:
    """``4.3`` as (4, 3, 0); what follows the numbers is ignored. Raises ValueError."""
    found = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    if found is None:
        raise ValueError(f"{text!r} is not a release of Kafka, such as 4.3.1")
    major, minor, patch = found.groups("0")
    return int(major), int(minor), int(patch)


LINES: dict[int, Version] = {
    25: (4, 0, 0),
    27: (4, 1, 0),
    29: (4, 2, 0),
    30: (4, 3, 0),
    33: (4, 4, 0),
}
"""The first release whose brokers support this level of the feature ``metadata.version`` (as
brokers of 4.0.0 to 4.4.0 answer; one of 3.7.2 answers 19)."""


@dataclass(frozen=True)
class KnownRelease:
    """What is known of the brokers' release: the release itself, or only the oldest possible one
    (``at_least``) and the first one that is too new (``below``), each None if it is not known."""

    exact: Version | None = None
    at_least: Version | None = None
    below: Version | None = None

    @classmethod
    def of(cls, exact: str | None, at_least: str | None = None) -> KnownRelease:
        """From texts such as ``4.3.1``. Raises ValueError."""
        return cls(
            parse_version(exact) if exact else None, parse_version(at_least) if at_least else None
        )

    @classmethod
    def of_levels(cls, levels: Iterable[int]) -> KnownRelease:
        """From the newest level of the feature ``metadata.version`` that each broker supports."""
        found = list(levels)
        if not found:
            return cls()
        oldest = [line for level, line in LINES.items() if level <= min(found)]
        newer = [line for level, line in LINES.items() if level > max(found)]
        return cls(
            at_least=max(oldest, default=(0, 0, 0)),
            below=min(newer) if newer else None,
        )

    @property
    def words(self) -> str | None:
        """The release in words; None if nothing is known."""
        if self.exact is not None:
            return ".".join(map(str, self.exact))
        if self.at_least is None:
            return None
        if not any(self.at_least):
            return f"before {_line(self.below or self.at_least)}"
        if self.below is None:
            return f"{_line(self.at_least)} or later"
        last = max(line for line in LINES.values() if line < self.below)
        lines = dict.fromkeys((_line(self.at_least), _line(last)))
        return " to ".join(lines)


def line_of_levels(levels: Iterable[int]) -> str | None:
    """The one line of releases, such as ``4.3``, whose brokers support these levels of
    ``metadata.version``; None if there is none, or more than one.
    """
    found = {LINES.get(level) for level in levels}
    if len(found) != 1:
        return None
    (version,) = found
    return None if version is None else _line(version)


def _line(version: Version) -> str:
    return f"{version[0]}.{version[1]}"


@dataclass(frozen=True)
class ReleaseRange:
    """The releases that a rule is about. All parts must hold.

    ``bounds`` are comparisons, such as ``>=4.1``. ``fixed_in`` are the first fixed releases of
    the lines that got a fix: a release of such a line is affected below it; one of another line
    is affected unless a whole line that is not newer (a fix of the form x.y.0) has the fix.
    """

    bounds: tuple[tuple[str, Version], ...] = ()
    fixed_in: tuple[Version, ...] = ()

    @classmethod
    def of(cls, brokers: str | None, fixed_in: Sequence[str], since: str | None) -> ReleaseRange:
        """From the fields of a rule. Raises ValueError."""
        bounds = []
        for part in (brokers or "").split(","):
            if not part.strip():
                continue
            found = _PART.fullmatch(part.strip())
            if found is None:
                raise ValueError(f"{part!r} is not a range of releases, such as '>=4.1, <4.3'")
            bounds.append((found[1], parse_version(found[2])))
        if since:
            bounds.append((">=", parse_version(since)))
        return cls(tuple(bounds), tuple(parse_version(one) for one in fixed_in))

    @property
    def is_everything(self) -> bool:
        """Whether the rule is about all releases."""
        return not self.bounds and not self.fixed_in

    def contains(self, release: KnownRelease) -> bool | None:
        """Whether the release is in the range; None if what is known does not say."""
        if self.is_everything:
            return True
        if release.exact is not None:
            return self._has(release.exact)
        if release.at_least is None:
            return None
        answers = {self._has(one) for one in self._samples(release.at_least, release.below)}
        return answers.pop() if len(answers) == 1 else None

    def _samples(self, at_least: Version, below: Version | None) -> list[Version]:
        """Releases from ``at_least`` on and below ``below``, among them one of each kind that the
        range tells apart."""
        named = [*(bound for _, bound in self.bounds), *self.fixed_in, at_least]
        patches = range(max(version[2] for version in named) + 2)
        samples = [
            (major, minor, patch)
            for major in range(at_least[0], max(version[0] for version in named) + 1)
            for minor in range(max(version[1] for version in named) + 2)
            for patch in patches
        ]
        return [
            sample
            for sample in (at_least, *samples)
            if sample >= at_least and (below is None or sample < below)
        ]

    def _has(self, release: Version) -> bool:
        within = all(_COMPARE[op](release, bound) for op, bound in self.bounds)
        return within and not (self.fixed_in and self._is_fixed(release))

    def _is_fixed(self, release: Version) -> bool:
        for fix in self.fixed_in:
            if fix[:2] == release[:2]:
                return release >= fix
        return any(fix <= release and fix[2] == 0 for fix in self.fixed_in)
