"""A lake on a real HDFS: equal to one on a local disk, and read without a JVM."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.captures import COMMITTED
from tests.conftest import DATA
from tests.spark.hdfs import hdfs
from tests.spark.lakes import TABLES_OF_RECORDS, rows_of_files
from tests.spark.stores import check_folder, kip848

CAPTURE = DATA / "kafka-4.3.1" / COMMITTED

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with hdfs(tmp_path_factory.mktemp("hdfs")) as uri:
        yield uri


def test_a_lake_on_hdfs(store: str, tmp_path: Path) -> None:
    """Two nights: the second one replaces rows and files of the first one."""
    lake, local = f"{store}/lake", str(tmp_path / "lake")
    whole = pq.read_table(CAPTURE)
    half = whole.filter(pc.less(whole["offset"], pc.quantile(whole["offset"])[0].as_py()))
    pq.write_table(half, tmp_path / "half.parquet")
    for capture in (tmp_path / "half.parquet", CAPTURE):
        for path in (lake, local):
            output = kip848("run", "--source", f"parquet:{capture}", "--lake", path, "--json")
            assert json.loads(output)["changed"]

    for table in TABLES_OF_RECORDS:
        assert rows_of_files(f"{lake}/{table}") == rows_of_files(f"{local}/{table}"), table
    no_java = {"JAVA_HOME": str(tmp_path / "no-java"), "PATH": "/nowhere"}
    query = "SELECT kind, count(*) AS n FROM records GROUP BY kind ORDER BY kind"
    for command in (("groups", "--all", "--json"), ("sql", query, "--json")):
        both = [kip848(*command, "--lake", path, **no_java) for path in (lake, local)]
        assert both[0] == both[1], command
        assert len(both[0]) > 2, command
    again = kip848("run", "--source", f"parquet:{CAPTURE}", "--lake", lake, "--json")
    assert not json.loads(again)["changed"]


def test_of_many_that_create_a_file_one_does(store: str) -> None:
    check_folder(f"{store}/folder")
