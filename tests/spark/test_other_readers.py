"""What other Delta readers find in a lake, by filters that let them skip files."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import duckdb_extension_delta
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from kip848_spark.lake.location import locate
from kip848_spark.lake.snapshot import LakeSnapshot
from kip848_spark.lake.statistics import MAX_TEXT_LENGTH, upper_bound
from kip848_spark.lake.tables import TABLES
from kip848_spark.spark.pipeline import run_ingest
from kip848_spark.spark.storage.opening import open_lake
from kip848_spark.spark.storage.tables import LakeTables
from tests.captures import COMMITTED
from tests.conftest import DATA
from tests.spark.lakes import source

pytestmark = pytest.mark.slow

CAPTURE = DATA / "kafka-4.3.1" / COMMITTED
VALUES = 3
"""The longest values of a column that are looked for."""
Reader = Callable[[Path, str, str, list[str]], list[int]]


@pytest.fixture
def lake(audited_lake: LakeTables) -> Path:
    """The folder of a lake of the 4.3.1 capture. Tests only read it."""
    return Path(audited_lake.path)


@pytest.fixture
def old_lake(lake: Path, tmp_path: Path) -> Path:
    """The lake with the statistics of earlier versions: no upper bound of a long text."""
    copied = tmp_path / "lake"
    for table in TABLES:
        for file in (lake / table).rglob("*"):
            target = copied / file.relative_to(lake)
            if file.is_file():
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(
                    _as_before(file) if file.suffix == ".json" else file.read_bytes()
                )
    return copied


def _as_before(log: Path) -> bytes:
    lines = []
    for line in log.read_text().splitlines():
        action = json.loads(line)
        if "add" in action:
            stats = json.loads(action["add"]["stats"])
            for name, value in list(stats["maxValues"].items()):
                if (
                    isinstance(value, str)
                    and len(value) >= MAX_TEXT_LENGTH
                    and "T" not in value[10:11]
                ):
                    del stats["maxValues"][name]
            action["add"]["stats"] = json.dumps(stats)
        lines.append(json.dumps(action))
    return "\n".join(lines).encode()


def _lacks_a_bound(table: Path) -> bool:
    files = pa.table(DeltaTable(str(table)).get_add_actions()).to_pylist()
    return any(
        value is not None and (file["max"] or {}).get(name) is None
        for file in files
        for name, value in (file["min"] or {}).items()
    )


def by_pyarrow(lake: Path, table: str, column: str, values: list[str]) -> list[int]:
    dataset = DeltaTable(str(lake / table)).to_pyarrow_dataset()
    return [dataset.count_rows(filter=pc.field(column) == value) for value in values]


def by_duckdb_on_pyarrow(lake: Path, table: str, column: str, values: list[str]) -> list[int]:
    dataset = DeltaTable(str(lake / table)).to_pyarrow_dataset()
    connection = duckdb.connect()
    connection.register("rows", dataset)
    query = f'SELECT count(*) FROM rows WHERE "{column}" = ?'
    return [connection.execute(query, [value]).fetchall()[0][0] for value in values]


def by_duckdb(lake: Path, table: str, column: str, values: list[str]) -> list[int]:
    """DuckDB's own Delta reader, which is Delta's kernel in Rust."""
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    extension = next(Path(duckdb_extension_delta.__file__).parent.rglob("*.duckdb_extension"))
    connection.execute(f"LOAD '{extension}'")
    query = f"SELECT count(*) FROM delta_scan('{lake / table}') WHERE \"{column}\" = ?"
    return [connection.execute(query, [value]).fetchall()[0][0] for value in values]


def by_polars(lake: Path, table: str, column: str, values: list[str]) -> list[int]:
    frame = pl.scan_delta(str(lake / table))
    return [
        frame.filter(pl.col(column) == value).select(pl.len()).collect().item() for value in values
    ]


def by_spark(lake: Path, table: str, column: str, values: list[str]) -> list[int]:
    spark = SparkSession.getActiveSession()
    assert spark is not None
    frame = spark.read.format("delta").load(str(lake / table))
    return [frame.where(F.col(column) == value).count() for value in values]


READERS = [by_pyarrow, by_duckdb_on_pyarrow, by_duckdb, by_polars, by_spark]


def looked_for(lake: Path) -> Iterator[tuple[str, str, list[str], list[int]]]:
    """Table, column, its longest values, and how often each one is there by the files alone."""
    for name, table in TABLES.items():
        rows = ds.dataset(
            DeltaTable(str(lake / name)).file_uris(),
            schema=pa.schema(list(table.fields.items())),
        )
        for column, type_ in table.fields.items():
            if not pa.types.is_string(type_):
                continue
            counts = Counter(rows.to_table(columns=[column])[column].drop_null().to_pylist())
            values = sorted(counts, key=lambda value: (-len(value), value))[:VALUES]
            if values:
                yield name, column, values, [counts[value] for value in values]


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.__name__)
def test_a_filter_finds_what_is_there(lake: Path, spark: SparkSession, reader: Reader) -> None:
    seen = 0
    for table, column, values, expected in looked_for(lake):
        assert reader(lake, table, column, values) == expected, (table, column)
        seen += any(len(value) > MAX_TEXT_LENGTH for value in values)
    assert seen > 5, "no long values were looked for"


def test_a_filter_finds_what_spark_wrote(spark_written_lake: LakeTables) -> None:
    lake = Path(spark_written_lake.path)
    for table, column, values, expected in looked_for(lake):
        for reader in (by_pyarrow, by_duckdb, by_polars):
            assert reader(lake, table, column, values) == expected, (table, column)


def test_a_run_corrects_the_statistics_of_earlier_versions(
    old_lake: Path, spark: SparkSession
) -> None:
    wanted = list(looked_for(old_lake))
    wrong = [
        (table, column)
        for table, column, values, expected in wanted
        if by_pyarrow(old_lake, table, column, values) != expected
    ]
    assert wrong, "the lake is not as an earlier version left it"
    stripped = {name for name in TABLES if _lacks_a_bound(old_lake / name)}
    assert stripped
    before = open_lake(spark, str(old_lake)).versions()

    assert not run_ingest(
        source(CAPTURE), open_lake(spark, str(old_lake)), then_replay=True
    ).changed
    for reader in READERS:
        for table, column, values, expected in wanted:
            assert reader(old_lake, table, column, values) == expected, (reader, table, column)
    corrected = open_lake(spark, str(old_lake)).versions()
    added = {name for name in TABLES if corrected[name] != before[name]}
    assert added == stripped

    run_ingest(source(CAPTURE), open_lake(spark, str(old_lake)), then_replay=True)
    assert open_lake(spark, str(old_lake)).versions() == corrected


def test_groups_are_found_by_statistics_of_earlier_versions(old_lake: Path) -> None:
    """The finished run names versions from before any correction."""
    state = LakeSnapshot(locate(str(old_lake)))
    ids = [row["group_id"] for row in state.rows("groups")]
    for group_id in ids:
        assert [row["group_id"] for row in state.rows("groups", [group_id])] == [group_id]


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("x" * 32, "x" * 32),
        ("x" * 33, "x" * 31 + "y"),
        ("a" + "\U0010ffff" * 40, "b"),
        ("a" * 31 + "\ud7ff" + "b", "a" * 31 + "\ue000"),
        ("\U0010ffff" * 33, None),
        ("ä" * 31 + "\U0010ffff" + "x", "ä" * 30 + "å"),
    ],
)
def test_a_shortened_upper_bound_is_larger(text: str, bound: str | None) -> None:
    assert upper_bound(text) == bound
    if bound is not None:
        assert bound.encode() >= text.encode()
        assert len(bound) <= MAX_TEXT_LENGTH
