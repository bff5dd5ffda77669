"""The code blocks of README.md, CONTRIBUTING.md and docs/, as `test_documentation.py` runs them.

A block is fenced and names its language. A block that no test can run as it stands has a comment
directly above it, which readers do not see::

    <!-- not run: it needs a Spark cluster; tests/spark/test_standalone.py::test_a_lake_on_s3 -->

The comment gives the reason, and after the semicolon the file (and the function) that covers what
the block says. A `text` block right after a block that runs is the output of that block.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from tests.conftest import DATA

ROOT = DATA.parents[1]

_FENCE = re.compile(r"^( *)```(\S*)\s*$")
_MARK = re.compile(r"^\s*<!-- not run: (?P<reason>[^;]+); (?P<covered>\S+)[^;]* -->$")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.*)$")
_LIST_ITEM = re.compile(r"^ *(?:[*+-]|\d+\.) ")
ELLIPSIS = "…"


@dataclass(frozen=True)
class Block:
    """A block of code. ``line`` is the number of its fence; ``covered`` names the test that stands
    in for running it. ``output`` is true for the output of the block before."""

    page: str
    line: int
    language: str
    text: str
    covered: str | None
    output: bool = False

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"

    def commands(self) -> Iterator[tuple[list[str], int]]:
        """The commands of a `sh` block, each with the exit code that its comment states."""
        for line in self.text.replace("\\\n", " ").splitlines():
            stated = re.search(r"# .*\bexit code (\d)", line)
            words = shlex.split(line, comments=True)
            if words:
                yield words, int(stated[1]) if stated else 0


def pages() -> list[str]:
    """The pages, relative to the root of the repository."""
    docs = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/*.md"))
    return ["README.md", "CONTRIBUTING.md", *docs]


def blocks(page: str) -> list[Block]:
    """The blocks of a page in order; indented ones have no language."""
    found: list[Block] = []
    lines = (ROOT / page).read_text().splitlines()
    previous, number, in_list = "", 0, False
    while number < len(lines):
        line = lines[number]
        fence = _FENCE.match(line)
        if fence:
            start = number
            indent, language = fence.groups()
            body = []
            number += 1
            while lines[number].strip() != "```":
                body.append(lines[number].removeprefix(indent))
                number += 1
            mark = _MARK.match(previous)
            runs = bool(found) and found[-1].covered is None and found[-1].language != "text"
            after = language == "text" and runs and previous == "```"
            covered = mark["covered"] if mark else None
            text = "\n".join(body)
            found.append(Block(page, start + 1, language, text, covered, output=after))
            previous = "```"
        elif line.strip():
            if not line.startswith(" "):
                in_list = bool(_LIST_ITEM.match(line))
            elif line.startswith("    ") and not in_list and not lines[number - 1].strip():
                found.append(Block(page, number + 1, "", line, None))
            previous = line
        number += 1
    return found


def links(page: str) -> Iterator[str]:
    """The targets of the page's links."""
    yield from _LINK.findall(_prose(page))


def anchors(page: str) -> set[str]:
    """The anchors that GitHub makes of a page's headings."""
    found: set[str] = set()
    for line in _prose(page).splitlines():
        heading = _HEADING.match(line)
        if heading:
            plain = re.sub(r"[^\w\- ]", "", heading[1].lower())
            found.add(plain.replace(" ", "-"))
    return found


def _prose(page: str) -> str:
    return re.sub(r"(?ms)^ *```.*?^ *```\s*$", "", (ROOT / page).read_text())


def replace_outputs(printed: list[tuple[Block, str]]) -> None:
    """Writes into the pages what the blocks' outputs really are."""
    for block, text in reversed(printed):  # the lines of earlier blocks stay where they are
        path = ROOT / block.page
        lines = path.read_text().splitlines()
        lines[block.line : block.line + len(block.text.splitlines())] = text.splitlines()
        path.write_text("\n".join(lines) + "\n")
