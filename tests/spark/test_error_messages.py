"""Why Spark can't do it, in a sentence: real sessions that lack something, each in a process."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger

from kip848_spark.errors import EnvironmentFault, SparkFailure
from kip848_spark.runtime import jars
from kip848_spark.spark.error_messages import translate_failure, translate_spark_errors
from kip848_spark.spark.preflight import jar_mismatch
from kip848_spark.spark.session import local_session
from tests.spark.plain_session import CAPTURE, DELTA

pytestmark = pytest.mark.slow

SOURCE = f"parquet:{CAPTURE}"


Raised = dict[str, str]
Case = tuple[dict[str, str], str]


def reported(
    tmp_path: Path, settings: dict[str, str], capture: str = str(CAPTURE), **environment: str
) -> Raised:
    """What a run in such a session raises."""
    (output,) = raised_in_turn(tmp_path, [(settings, capture)], **environment)
    return output


def raised_in_turn(tmp_path: Path, cases: Sequence[Case], **environment: str) -> list[Raised]:
    """What runs in such sessions raise, one session after another in one JVM."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.unfit_session", str(tmp_path / "l"), json.dumps(cases)],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, **environment},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "l").exists()
    output: list[Raised] = json.loads(done.stdout.splitlines()[-1])
    return output


def ours() -> str:
    return ",".join(map(str, jars.spark_jars()))


def kip848(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kip848_spark", *arguments],
        env={**os.environ, **environment},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def test_no_jars(tmp_path: Path) -> None:
    output = reported(tmp_path, {})
    assert output["message"] == "The Spark session lacks the classes of Delta Lake."
    assert "kip848 jars" in output["hint"]


def test_jars_of_another_spark(tmp_path: Path) -> None:
    other = tmp_path / "delta-spark_4.0_2.13-4.0.1.jar"
    mine = [jar for jar in jars.spark_jars() if not jar.name.startswith("delta-spark")]
    shutil.copy(next(j for j in jars.spark_jars() if j.name.startswith("delta-spark")), other)
    output = reported(tmp_path, {"spark.jars": ",".join(map(str, [*mine, other])), **DELTA})
    assert output["kind"] == "EnvironmentFault"
    assert f"The jar {other.name}" in output["message"]
    assert "built for Spark 4.0" in output["message"]


CATALOG = "spark.sql.catalog.spark_catalog"


@pytest.fixture(scope="module")
def with_our_jars(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Raised]:
    """What sessions raise that have our jars, and lack something else. A start of Spark takes
    seconds, so that all of them are in one JVM."""
    jars_ = {"spark.jars": ours()}
    cases: dict[str, Case] = {
        "no extension": (jars_, str(CAPTURE)),
        "no catalog": ({**jars_, **DELTA, CATALOG: "builtin"}, str(CAPTURE)),
        "abc": ({**jars_, **DELTA}, "abc://bucket/capture"),
        "s3a": ({**jars_, **DELTA}, "s3a://bucket/capture"),
    }
    output = raised_in_turn(tmp_path_factory.mktemp("unfit"), list(cases.values()))
    return dict(zip(cases, output, strict=True))


def test_no_extension(with_our_jars: dict[str, Raised]) -> None:
    output = with_our_jars["no extension"]
    assert "lacks spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension" in output["message"]
    assert "--conf spark.sql.extensions" in output["hint"]
    output = with_our_jars["no catalog"]
    assert f"lacks {CATALOG}=org.apache.spark.sql.delta.catalog.DeltaCatalog" in output["message"]


def test_executors_without_the_package(tmp_path: Path) -> None:
    """An executor whose Python is a bare one."""
    bare = tmp_path / "bare"
    venv.create(bare)
    python = str(bare / "bin" / "python")
    settings = {"spark.jars": ours(), **DELTA, "spark.master": "local-cluster[1,1,1024]"}
    settings |= {"spark.pyspark.python": python, "spark.pyspark.driver.python": sys.executable}
    output = reported(tmp_path, settings, PYSPARK_PYTHON=python)
    assert output["kind"] == "EnvironmentFault"
    assert "Python on the executor " in output["message"]
    assert "can't import " in output["message"]
    assert python in output["message"]


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ('"spark.driver.memory" = "999t"', "999t|object heap|heap size"),
        ('"spark.driver.extraJavaOptions" = "-Xmx3g"', "Not allowed to specify max heap"),
        ('"spark.executor.cores" = "lots"', "positive number"),
        ('"spark.master" = "nonsense"', "Master must either be"),
    ],
)
def test_a_jvm_that_does_not_start(tmp_path: Path, setting: str, reason: str) -> None:
    file = tmp_path / "kip848.toml"
    file.write_text(f"[spark]\n{setting}\n")
    lake = tmp_path / "lake"
    done = kip848("ingest", "--source", SOURCE, "--lake", str(lake), "--config", str(file))
    assert done.returncode == 2
    assert "Spark can't be started: " in done.stderr
    assert any(part in done.stderr for part in reason.split("|")), done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    assert len(done.stderr) < 800, done.stderr
    assert done.stdout == ""
    assert not lake.exists()


def test_a_user_without_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some platforms give a container any number. Hadoop then says only that a name is null."""

    def unknown(number: int) -> None:
        raise KeyError(number)

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    with pytest.raises(EnvironmentFault, match=f"The user {os.geteuid()} has no name"):
        local_session()


@pytest.mark.parametrize("by", ["variable", "setting"])
def test_spark_connect_is_refused(tmp_path: Path, by: str) -> None:
    lake, remote = str(tmp_path / "lake"), "sc://127.0.0.1:1"
    config = tmp_path / "kip848.toml"
    config.write_text(f'[spark]\n"spark.remote" = "{remote}"\n' if by == "setting" else "")
    arguments = ("ingest", "--source", SOURCE, "--lake", lake, "--config", str(config))
    done = kip848(*arguments, **({"SPARK_REMOTE": remote} if by == "variable" else {}))
    assert done.returncode == 2
    assert "Spark Connect" in done.stderr
    assert "SPARK_REMOTE" in done.stderr
    assert len(done.stderr) < 500, done.stderr


@pytest.mark.parametrize(
    ("scheme", "words", "todo"),
    [("abc", "no file system for abc: paths", "add the jars"), ("s3a", "S3AFileSystem", "--s3")],
)
def test_a_file_system_that_is_not_there(
    with_our_jars: dict[str, Raised], scheme: str, words: str, todo: str
) -> None:
    output = with_our_jars[scheme]
    assert words in output["message"]
    assert todo in output["hint"]
    assert "o2" not in output["message"]


@pytest.mark.parametrize(
    ("jar", "wrong"),
    [
        ("delta-spark_4.2_2.13-4.4.0.jar", None),
        ("delta-spark_4.0_2.13-4.4.0.jar", "Spark 4.0"),
        ("delta-spark_2.12-3.3.0.jar", "Scala 2.12"),
        ("spark-sql-kafka-0-10_2.13-4.2.1.jar", None),
        ("spark-sql-kafka-0-10_2.13-3.5.1.jar", "Spark 3.5"),
        ("runtime.jar", None),
        ("jrt:/some/place", None),
    ],
)
def test_a_jars_name_tells_what_it_is_made_for(jar: str, wrong: str | None) -> None:
    assert jar_mismatch(jar, "4.2.0", "2.13") == wrong


LEASE = """
import sys, time
from pyspark import SparkContext
from kip848_spark.lake import lease
from kip848_spark.lake.lease import Lease
from kip848_spark.spark.error_messages import translate_spark_errors
from kip848_spark.spark.hadoop import HadoopFolder
from kip848_spark.spark.session import local_session

folder = HadoopFolder(local_session(), sys.argv[1])
lease.HEARTBEAT_S = 0.02
with translate_spark_errors(), Lease.hold(folder, "lake"):
    SparkContext._gateway.proc.kill()
    time.sleep(1)
    folder.names()
"""


def test_a_lease_whose_jvm_ends(tmp_path: Path) -> None:
    """A lake on a store has it through the JVM: the thread of its heartbeats prints nothing."""
    done = subprocess.run(
        [sys.executable, "-c", LEASE, tmp_path.as_uri()],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert "SparkFailure: Spark's JVM ended in the middle of the work." in done.stderr
    assert "kip848-lease" not in done.stderr


NO_MEMORY = """
from kip848_spark.spark.error_messages import translate_spark_errors
from kip848_spark.spark.session import local_session

spark = local_session({"spark.driver.memory": "600m"})
with translate_spark_errors():
    spark.range(4).selectExpr("length(repeat(string(id), 1000000000)) AS x").collect()
"""


def test_a_jvm_without_memory() -> None:
    """Spark ends its JVM, and the jobs get the answer that it was shut down."""
    done = subprocess.run(
        [sys.executable, "-c", NO_MEMORY],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    last = done.stderr.strip().splitlines()[-1]
    assert "SparkFailure: Spark's JVM ran out of memory." in last


@pytest.mark.parametrize(
    "text",
    [
        ": java.lang.OutOfMemoryError: Java heap space\n\tat java.base/java.util.Arrays.copyOf",
        "ExecutorLostFailure (executor 3 exited caused by one of the running tasks) Reason: "
        "Command exited with code 52",
    ],
)
def test_an_executor_without_memory(text: str, tmp_path: Path) -> None:
    error = translate_failure(text, tmp_path / "log")
    assert error.message == "Spark's JVM ran out of memory."
    assert "--executor-memory" in (error.hint or "")


def test_a_jvm_without_threads(tmp_path: Path) -> None:
    text = ": java.lang.OutOfMemoryError: unable to create native thread: possibly out of memory"
    error = translate_failure(text, tmp_path / "log")
    assert "unable to create native thread" in error.message
    assert "spark.driver.memory" not in (error.hint or "")


def test_a_cache_that_can_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be part of an image, with all jars: then the log is elsewhere."""
    (tmp_path / "cache").touch()
    monkeypatch.setenv("KIP848_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(SparkFailure, match="the reason") as raised, translate_spark_errors():
        raise PySparkException("the reason")
    (log,) = tmp_path.glob("kip848-logs-*/spark-*.log")
    assert "the reason" in log.read_text()
    assert str(log) in (raised.value.hint or "")


def test_pysparks_loggers_are_restored() -> None:
    logger = PySparkLogger.getLogger("DataFrameQueryContextLogger")
    assert not logger.disabled
    with translate_spark_errors():
        with translate_spark_errors():
            assert logger.disabled
        assert logger.disabled
    with pytest.raises(SparkFailure), translate_spark_errors():
        raise PySparkException("failed")
    assert not logger.disabled


@pytest.mark.parametrize("kind", [signal.SIGKILL, signal.SIGTERM])
def test_a_jvm_that_ends_in_the_middle(tmp_path: Path, kind: signal.Signals) -> None:
    """As when the kernel needs its memory, or an operator stops it."""
    lake = str(tmp_path / "lake")
    command = [sys.executable, "-m", "kip848_spark", "run", "--source", SOURCE, "--lake", lake]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert any("starting Spark" in line for line in process.stderr)
        children = psutil.Process(process.pid).children(recursive=True)
        (jvm,) = (child for child in children if child.name() == "java")
        jvm.send_signal(kind)
        error = process.stderr.read()
    assert process.returncode == 3, error
    assert "error: Spark's JVM ended in the middle of the work." in error
    assert "Traceback" not in error
    assert "memory" in error
