"""The job by ``spark-submit`` on a standalone cluster, in each way of docs/clusters.md.

The cluster's processes can't import the package by themselves. What the job leaves in the lake is
what a local run leaves.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kip848_spark.runtime.jars import s3_jars, spark_jars
from kip848_spark.spark.pipeline import run_ingest
from kip848_spark.spark.storage.opening import open_lake
from tests.captures import COMMITTED
from tests.conftest import DATA
from tests.spark.lakes import TABLES_OF_RECORDS, rows_of_files, source
from tests.spark.s3 import S3Server
from tests.spark.standalone import Standalone, standalone

CAPTURE = DATA / "kafka-4.3.1" / COMMITTED
JOB = DATA.parents[1] / "jobs" / "run.py"

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with standalone(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="module")
def local(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The rows of each table after a local run."""
    path = str(tmp_path_factory.mktemp("local") / "lake")
    run_ingest(source(CAPTURE), open_lake(spark, path), then_replay=True, then_audit=True)
    return {table: rows_of_files(f"{path}/{table}") for table in TABLES_OF_RECORDS}


@pytest.fixture(scope="module")
def dependencies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment that has what the package depends on (the packages of this one), and
    not the package."""
    environment = tmp_path_factory.mktemp("dependencies") / "environment"
    _make_environment(environment)
    import_it = [environment / "bin" / "python", "-I", "-c", "import kip848_spark.errors"]
    assert subprocess.run(import_it, cwd="/", capture_output=True, check=False).returncode
    return environment


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the package and what it depends on."""
    environment = tmp_path_factory.mktemp("installed") / "environment"
    _make_environment(environment)
    pip = [sys.executable, "-m", "pip", "--python", str(environment / "bin" / "python")]
    install = ["install", "--quiet", "--no-index", "--no-deps", str(wheel)]
    subprocess.run([*pip, *install], check=True, timeout=300)
    return environment


def _make_environment(folder: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    # Of a folder that is appended, the .pth files (the checkout's) are not read. As a statement,
    # since venv-pack refuses .pth files that name a folder elsewhere.
    append = f"import sys; sys.path.append({sysconfig.get_path('platlib')!r})\n"
    (packages / "dependencies.pth").write_text(append)


def submit(
    cluster: Standalone,
    lake: Path | str,
    *options: str,
    environment: Mapping[str, str],
    s3: S3Server | None = None,
    verb: Sequence[str] = (),
) -> dict[str, list[str]]:
    """Runs the job into ``lake``; gives the rows of each table. ``options`` are spark-submit's,
    ``verb`` the job's own."""
    jars = spark_jars() + (s3_jars() if s3 else [])
    done = cluster.submit(
        *("--jars", ",".join(map(str, jars))),
        *options,
        *(str(JOB), "--source", f"parquet:{CAPTURE}", "--lake", str(lake), *verb),
        environment=environment,
    )
    # Standard output has both of the driver's Python, standard error that of its JVM.
    output = (done.stdout, done.stderr, cluster.said_by_executors())
    assert done.returncode == 0, "\n".join(text[-6000:] for text in output)
    storage_options = s3.storage_options if s3 else {}
    return {table: rows_of_files(f"{lake}/{table}", storage_options) for table in TABLES_OF_RECORDS}


def test_installed_on_every_node(
    cluster: Standalone, installed: Path, local: dict[str, list[str]], tmp_path: Path
) -> None:
    python = {"PYSPARK_PYTHON": str(installed / "bin" / "python")}
    assert submit(cluster, tmp_path / "lake", environment=python) == local


def test_an_archive_of_the_environment(
    cluster: Standalone, installed: Path, local: dict[str, list[str]], tmp_path: Path
) -> None:
    archive = tmp_path / "environment.tar.gz"
    pack = [str(Path(sys.executable).with_name("venv-pack")), "--quiet", "-p", str(installed)]
    to = ["-o", str(archive), "--exclude", "*/pyspark/jars/*"]
    subprocess.run([*pack, *to], check=True, timeout=600)
    python = {
        "PYSPARK_DRIVER_PYTHON": str(installed / "bin" / "python"),
        "PYSPARK_PYTHON": "./environment/bin/python",
    }
    option = ("--archives", f"{archive}#environment")
    assert submit(cluster, tmp_path / "lake", *option, environment=python) == local


def test_the_wheel_as_a_zip_file(
    cluster: Standalone,
    dependencies: Path,
    wheel: Path,
    local: dict[str, list[str]],
    tmp_path: Path,
) -> None:
    zipped = shutil.copy(wheel, tmp_path / "kip848_spark.zip")
    python = {"PYSPARK_PYTHON": str(dependencies / "bin" / "python")}
    option = ("--py-files", str(zipped))
    assert submit(cluster, tmp_path / "lake", *option, environment=python) == local


def test_a_lake_on_s3(
    cluster: Standalone,
    installed: Path,
    local: dict[str, list[str]],
    s3: S3Server,
    tmp_path: Path,
) -> None:
    """The store's settings come from ``[storage]``, its secret from the driver's environment."""
    options = {name.lower(): value for name, value in s3.storage_options.items()}
    secret = options.pop("aws_secret_access_key")
    lines = [f'{name} = "{value}"' for name, value in options.items()]
    settings = tmp_path / "kip848.toml"
    settings.write_text(
        "\n".join(["[storage]", *lines, 'aws_secret_access_key = "${STORE_SECRET}"', ""])
    )
    environment = {"PYSPARK_PYTHON": str(installed / "bin" / "python"), "STORE_SECRET": secret}
    lake = s3.path("from-a-cluster")
    verb = ("--config", str(settings))
    assert submit(cluster, lake, environment=environment, s3=s3, verb=verb) == local
