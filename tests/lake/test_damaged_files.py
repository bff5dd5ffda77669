"""A lake with a file that somebody deleted or damaged: every reader says so in a sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kip848_spark import Lake, RunResult
from kip848_spark.errors import LakeError
from kip848_spark.lake.findings import find_findings
from kip848_spark.report.data import report_data
from tests.report.audited_lake import SECOND, write_audited_lake

Damage = Callable[[Path], object]
DAMAGES = [
    pytest.param(Path.unlink, id="deleted"),
    pytest.param(lambda file: file.write_bytes(b"damaged"), id="damaged"),
]


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return write_audited_lake(tmp_path / "lake")


def _damage(lake: Path, table: str, damage: Damage) -> None:
    files = list((lake / table).glob("*.parquet"))
    assert files
    for file in files:
        damage(file)


def _findings_of_a_run(lake: Lake) -> Any:
    none = pa.table({})
    return RunResult(lake, SECOND, True, None, 0, {}, none, None).findings


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize(
    "read",
    [
        pytest.param(lambda lake: find_findings(lake.snapshot()), id="find_findings"),
        pytest.param(_findings_of_a_run, id="RunResult"),
        pytest.param(lambda lake: lake.sql("SELECT severity FROM findings"), id="sql"),
        pytest.param(lambda lake: report_data(lake.snapshot()), id="report"),
    ],
)
def test_the_findings(lake: Path, read: Callable[[Lake], object], damage: Damage) -> None:
    """Arrow raises FileNotFoundError or ArrowInvalid: a command would end as after a bug."""
    assert read(Lake(lake))
    _damage(lake, "findings", damage)
    with pytest.raises(LakeError, match=r"[Tt]he lake .* can't be read"):
        read(Lake(lake))


@pytest.mark.parametrize("damage", DAMAGES)
def test_the_number_of_records(lake: Path, damage: Damage) -> None:
    """It is read from the ends of the files. The report asks for it."""
    assert Lake(lake).snapshot().count_rows("records") == Lake(lake).table("records").num_rows > 0
    _damage(lake, "records", damage)
    with pytest.raises(LakeError, match=r"records of the lake .* can't be read"):
        Lake(lake).snapshot().count_rows("records")
