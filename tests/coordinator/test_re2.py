"""Expressions against RE2J: accepted or refused, and what they match."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

import pytest

from kip848_spark.coordinator.re2 import compile_re2
from kip848_spark.coordinator.releases import find_release
from kip848_spark.runtime.jars import broker_jars
from kip848_spark.runtime.java import find_java

_SOURCE = Path(__file__).parent / "java" / "Match.java"
NAMES = ["a", "b", "ab", "a1", "A1", "abab", "aaa", "x", "orders.eu", "orders_eu", "o-2", "__t"]
PIECES = [
    *"ab1.x*+?|()[]{}^$-,_\\",
    *("orders", "eu", "(a|b)", "(?:", "(?i)", "(?i:", "(?-i)", "(?P<n>", "(?<n>", "(?s)", "(?"),
    *("[ab]", "[^a]", "[a-z]", "[0-9]+", "[[:alpha:]]", "[[:^digit:]x]", "[[:no:]]", "[]a]"),
    *("[\\d.]", "[^\\W_]", "[a-]", "[a-\\d]"),
    *("(?P<n>a)", "(?<n>b)", "(?P<m>1)"),
    *("\\d", "\\w+", "\\S", "\\D", "\\.", "\\-", "\\_", "\\pL", "\\p{Lu}", "\\P{Ll}", "\\p{^Nd}"),
    *("\\p{Latin}", "\\pZ", "\\p{No", "\\Q.\\E", "\\Qa", "\\E", "\\A", "\\z", "\\Z", "\\b", "\\B"),
    *("\\x61", "\\x{41}", "\\061", "\\0", "\\1", "\\8", "\\n", "\\C", "\\G", "\\h", ".*", ".+?"),
    *("a{2}", "{1,2}", "{2,}", "{,2}", "{0}", "{2,1}", "{1001}", "**", "a?", "x*?", "(?=a)", "&&"),
]


def expressions(count: int) -> list[str]:
    rng = random.Random(2)
    return ["".join(rng.choices(PIECES, k=rng.randint(1, 6))) for _ in range(count)]


def re2j(version: str, tested: list[str]) -> list[str]:
    """The results of a release's own library for each expression."""
    jars = os.pathsep.join(str(jar) for jar in broker_jars(version))
    done = subprocess.run(
        [str(find_java()), "-Xmx256m", "-cp", jars, str(_SOURCE)],
        input="".join("\t".join([expression, *NAMES]) + "\n" for expression in tested),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


def ours(expression: str, release: str) -> str:
    try:
        pattern = compile_re2(expression, short_names=find_release(release).short_group_names)
    except ValueError:
        return "refused"
    return "".join("01"[pattern.fullmatch(name) is not None] for name in NAMES)


@pytest.mark.parametrize("version", ["4.3.1", "4.0.2"])
def test_expressions_match_as_in_re2j(version: str) -> None:
    tested = expressions(20_000)
    found = zip(tested, re2j(version, tested), strict=True)
    wrong = [
        (expression, theirs, mine)
        for expression, theirs in found
        if theirs != (mine := ours(expression, version))
    ]
    assert not wrong, f"{len(wrong)}, the first: {wrong[:20]}"
