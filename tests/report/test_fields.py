"""docs/report.md lists the fields of `report.json`: all of them, and no others."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

import pytest

from kip848_spark.checks.results import CHECKS
from kip848_spark.insight.readiness_rules import VERDICTS
from kip848_spark.insight.rebalance_fields import OUTCOMES
from kip848_spark.lake.location import locate
from kip848_spark.lake.snapshot import LakeSnapshot
from kip848_spark.report.data import report_data
from kip848_spark.report.overview import CAUSES_OF_GAPS, CHECKS_IN_WORDS
from kip848_spark.report.readiness_rows import VERDICTS_IN_WORDS
from kip848_spark.report.rebalance_rows import OUTCOMES_IN_WORDS
from tests.documentation import ROOT
from tests.report.audited_lake import write_audited_lake
from tests.report.report_reader import tables_of

Report = dict[str, Any]
_NAMES = re.compile(r"`(\w+)`")
GAP_CAUSES = ("transaction", "compaction", "unknown")
"""As `docs/design.md` defines them."""
_ASKED_A_CLUSTER = {"hygiene.deleted_topics", "hygiene.open_transactions"}
"""Tables that a lake lacks whose records come from a capture."""


def documented(title: str) -> dict[str, str]:
    """The rows of the table after the line ``title``: what is in the first cell, and the second."""
    text = (ROOT / "docs" / "report.md").read_text().split(f"\n{title}:\n\n", 1)[1]
    rows = re.findall(r"^\| (?:`([\w.]+)`|\(top\)) \| (.*) \|$", text.split("\n\n")[0], re.M)
    return dict(rows)


def names_in(cell: str) -> list[str]:
    """The names of the fields in a cell: those before the colon, outside of parentheses."""
    return _NAMES.findall(re.sub(r"\([^()]*\)", "", cell).split(":")[0])


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    lake = write_audited_lake(tmp_path_factory.mktemp("fields") / "lake")
    return report_data(LakeSnapshot(locate(str(lake))))


def test_tables(report: Report) -> None:
    found: dict[str, list[str]] = {}
    for path, table in tables_of(report):
        columns = list(table["columns"])
        assert found.setdefault(path, columns) == columns, path
    listed = {path: names_in(cell) for path, cell in documented("Tables").items()}
    assert found == {path: names for path, names in listed.items() if path not in _ASKED_A_CLUSTER}
    assert listed.keys() - found.keys() == _ASKED_A_CLUSTER


def test_objects(report: Report) -> None:
    objects = documented("Objects")
    assert names_in(objects.pop("")) == list(report)
    objects.pop("missing_sections")
    for path, cell in objects.items():
        value = report[path]
        fields = value[0] if isinstance(value, list) else value
        wanted = names_in(cell.split(";")[0].replace("a list of objects: ", ""))
        assert set(wanted) == set(fields), path


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (CHECKS, CHECKS_IN_WORDS),
        (GAP_CAUSES, CAUSES_OF_GAPS),
        (VERDICTS, VERDICTS_IN_WORDS),
        (OUTCOMES, OUTCOMES_IN_WORDS),
    ],
)
def test_each_name_has_a_sentence(names: Collection[str], words: Mapping[str, str]) -> None:
    """A check that is added would stand on the page without a word."""
    assert set(names) == words.keys()
