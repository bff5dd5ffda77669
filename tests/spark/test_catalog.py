"""A lake that is a schema of a Hive metastore."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kip848_spark.lake.location import schema_names
from kip848_spark.lake.tables import TABLES
from tests.captures import COMMITTED
from tests.conftest import DATA
from tests.spark.lakes import TABLES_OF_RECORDS, rows_of_files
from tests.spark.stores import kip848

CAPTURE = DATA / "kafka-4.3.1" / COMMITTED
ONE_SESSION = """
import json, sys
from kip848_spark import CaptureSource, Lake, run
from kip848_spark.errors import LakeError
from kip848_spark.spark.session import local_session
capture, folder, settings = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
spark = local_session(settings)
source, lake = CaptureSource(capture), Lake("spark_catalog.kip848")
try:
    run(source, lake, spark=spark)
except LakeError as error:
    missing = f"{error} {error.hint}"
located = folder.replace("'", "\\\\'")
spark.sql(f"CREATE SCHEMA spark_catalog.kip848 LOCATION '{located}'")
changed = [run(source, lake, spark=spark).changed for _ in range(2)]
tables = [row["tableName"] for row in spark.sql("SHOW TABLES IN spark_catalog.kip848").collect()]
(count,) = spark.sql("SELECT count(*) FROM spark_catalog.kip848.records").head()
print(json.dumps({"missing": missing, "changed": changed, "tables": tables, "records": count}))
spark.stop()
"""


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("spark_catalog.kip848", ("spark_catalog", "kip848")),
        ("unity.kip848", ("unity", "kip848")),
        ("glue.kip848", None),  # no such catalog: a folder
        ("./unity.kip848", None),
        ("unity.kip848.x", None),
        ("unity.kip-848", None),
        ("lake", None),
    ],
)
def test_what_names_a_schema(text: str, names: tuple[str, str] | None) -> None:
    assert schema_names(text, {"spark.sql.catalog.unity": "a.Class"}.__contains__) == names


def test_what_reads_without_spark_needs_the_folder() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kip848_spark", "groups", "--lake", "spark_catalog.kip848"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3, done
    assert "can only be read through Spark" in done.stderr


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_a_lake_in_a_metastore(tmp_path: Path) -> None:
    """The tables are those of a lake in a folder, and other programs find them by name."""
    settings = {
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": str(tmp_path / "warehouse"),
        "spark.hadoop.javax.jdo.option.ConnectionURL": (
            f"jdbc:derby:;databaseName={tmp_path / 'metastore'};create=true"
        ),
    }
    folder, local = str(tmp_path / "it's a 100% folder"), str(tmp_path / "lake")
    command = [sys.executable, "-c", ONE_SESSION, str(CAPTURE), folder, json.dumps(settings)]
    found = json.loads(subprocess.check_output(command, text=True).splitlines()[-1])
    assert "has no schema kip848" in found["missing"]
    assert "CREATE SCHEMA spark_catalog.kip848 LOCATION" in found["missing"]
    assert found["changed"] == [True, False]
    assert set(found["tables"]) == TABLES.keys()

    kip848("run", "--source", f"parquet:{CAPTURE}", "--lake", local)
    for table in TABLES_OF_RECORDS:
        assert rows_of_files(f"{folder}/{table}") == rows_of_files(f"{local}/{table}"), table
    assert found["records"] == len(rows_of_files(f"{local}/records"))
    assert kip848("groups", "--lake", folder) == kip848("groups", "--lake", local)
