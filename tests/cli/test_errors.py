"""Bad input ends in one sentence and the right exit code, with nothing half-written."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from kip848_spark.local.broker import Broker
from kip848_spark.spark.storage.opening import open_lake
from tests.captures import COMMITTED
from tests.cli.command import Command, Ended
from tests.conftest import DATA

CAPTURE = DATA / "kafka-4.3.1" / COMMITTED


def refused(ended: Ended, code: int, *words: str) -> None:
    assert ended.code == code, ended
    output = ended.err
    assert "error:" in output
    assert "Traceback" not in output
    for word in words:
        assert word in output


def alone(environment: dict[str, str], *arguments: str) -> Ended:
    """The command in a process of its own, with that environment and no more."""
    command = [sys.executable, "-m", "kip848_spark", *arguments]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    return Ended(done.returncode, done.stdout, " ".join(done.stderr.split()))


@pytest.mark.parametrize("source", ["kafka", "kafka:", "kafka:host", "ftp:x", "parquet:"])
def test_a_source_that_is_none(kip848: Command, tmp_path: Path, source: str) -> None:
    refused(kip848("run", "--source", source, "--lake", str(tmp_path / "l")), 2, source)
    assert not (tmp_path / "l").exists()


def test_a_capture_has_nobody_to_ask(kip848: Command, tmp_path: Path) -> None:
    reported = kip848("audit", "--lake", str(tmp_path), "--source", "parquet:/some/capture")
    refused(reported, 2, "is a capture")


def test_nothing_named(kip848: Command) -> None:
    refused(kip848("run"), 2, "No source is given")
    refused(kip848("run", "--source", "parquet:x"), 2, "No lake is given")
    refused(kip848("groups"), 2, "No lake is given")


def test_no_broker(kip848: Command, spark: SparkSession, tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    lake = tmp_path / "lake"
    ended = kip848("run", "--source", f"kafka:127.0.0.1:{port}", "--lake", str(lake))
    refused(ended, 3, "No Kafka broker answers", str(port))
    assert not lake.exists()


def test_no_setting_of_that_name(kip848: Command, spark: SparkSession, tmp_path: Path) -> None:
    """Another attempt cannot help, as it can if no broker answers: the code is that of wrong
    usage."""
    source, lake = "kafka:127.0.0.1:9", tmp_path / "lake"
    ended = kip848("run", "--source", source, "--lake", lake, "--kafka-option", "foo.bar=1")
    refused(ended, 2, "settings are not usable", "foo.bar", "--kafka-option")


def test_no_topic(kip848: Command, spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    source = f"kafka:{broker.bootstrap}"
    ended = kip848("run", "--source", source, "--topic", "no-such", "--lake", str(lake))
    refused(ended, 3, "no-such")
    assert not lake.exists()


def test_no_java(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    run = ("run", "--source", f"parquet:{CAPTURE}", "--lake", str(lake))
    ended = alone({"PATH": str(tmp_path)}, *run)
    refused(ended, 2, "Java")
    assert not lake.exists()


def test_java_is_too_old(tmp_path: Path) -> None:
    old = tmp_path / "java"
    old.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    old.chmod(0o755)
    path = {"PATH": f"{tmp_path}:/bin"}
    ended = alone(path, "run", "--source", f"parquet:{CAPTURE}", "--lake", str(tmp_path / "lake"))
    refused(ended, 2, "11")


@pytest.mark.slow
def test_a_file_is_no_lake(kip848: Command, spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    refused(kip848("run", "--source", f"parquet:{CAPTURE}", "--lake", str(file)), 2, "not a lake")
    refused(kip848("groups", "--lake", str(file)), 2, "not a lake")


def test_another_folder_is_no_lake(kip848: Command, spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("x")
    ended = kip848("run", "--source", f"parquet:{CAPTURE}", "--lake", str(tmp_path))
    refused(ended, 2, "not a lake")
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.txt"]


@pytest.mark.slow
def test_a_lake_that_lacks_a_table(kip848: Command, spark: SparkSession, tmp_path: Path) -> None:
    run = ("--source", f"parquet:{CAPTURE}", "--lake", str(tmp_path / "lake"))
    assert kip848("ingest", *run).code == 0
    shutil.rmtree(tmp_path / "lake" / "findings")
    refused(kip848("run", *run), 3, "has no table findings")


@pytest.mark.slow
def test_a_lake_refuses_another_topic(kip848: Command, spark: SparkSession, tmp_path: Path) -> None:
    capture, lake = tmp_path / "capture", tmp_path / "lake"
    made = kip848("capture", "--source", f"parquet:{CAPTURE}", "--out", str(capture))
    assert made.code == 0, made
    assert (capture / "_origin.json").exists()
    assert kip848("ingest", "--source", f"parquet:{capture}", "--lake", str(lake)).code == 0
    before = open_lake(spark, str(lake)).versions()
    other = DATA / "kafka-4.0.2" / COMMITTED
    ended = kip848("run", "--source", f"parquet:{other}", "--lake", str(lake))
    refused(ended, 2, "is not the topic that this lake holds: at partition")
    assert "Use one lake for each topic and cluster." in ended.err
    assert ended.out == ""
    assert open_lake(spark, str(lake)).versions() == before


def test_a_damaged_origin(kip848: Command, spark: SparkSession, tmp_path: Path) -> None:
    capture, lake = tmp_path / "capture", tmp_path / "lake"
    capture.mkdir()
    shutil.copy(CAPTURE, capture)
    (capture / "_origin.json").write_text("{")
    ended = kip848("run", "--source", f"parquet:{capture}", "--lake", str(lake))
    refused(ended, 2, f"The file _origin.json of the capture {capture} can't be read: ")
    assert not lake.exists()


def test_a_lake_that_can_not_be_written(kip848: Command, spark: SparkSession) -> None:
    ended = kip848("run", "--source", f"parquet:{CAPTURE}", "--lake", "/proc/kip848/lake")
    refused(ended, 3, "/proc/kip848/lake", "can't be written")


def test_a_capture_that_is_not_there(kip848: Command, spark: SparkSession, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    refused(kip848("run", "--source", "parquet:/no/such", "--lake", str(lake)), 3, "/no/such")
    assert not lake.exists()


def test_a_capture_that_lacks_columns(kip848: Command, spark: SparkSession, tmp_path: Path) -> None:
    short = tmp_path / "short.parquet"
    pq.write_table(pq.read_table(CAPTURE).drop_columns(["value", "timestamp"]), short)
    ended = kip848("dump", "--source", f"parquet:{short}")
    refused(ended, 2, "lacks the columns timestamp and value")


def test_a_capture_of_wrong_types(kip848: Command, spark: SparkSession, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.parquet"
    table = pq.read_table(CAPTURE)
    offsets = table["offset"].cast(pa.string())
    pq.write_table(table.set_column(table.column_names.index("offset"), "offset", offsets), wrong)
    ended = kip848("run", "--source", f"parquet:{wrong}", "--lake", str(tmp_path / "lake"))
    refused(ended, 2, "column offset is of type string")
    assert not (tmp_path / "lake").exists()


def test_a_capture_with_nanoseconds(kip848: Command, spark: SparkSession, tmp_path: Path) -> None:
    fine = tmp_path / "fine.parquet"
    table = pq.read_table(CAPTURE)
    times = table["timestamp"].cast(pa.timestamp("ns", "UTC"))
    at = table.column_names.index("timestamp")
    pq.write_table(table.set_column(at, "timestamp", times), fine)
    refused(kip848("dump", "--source", f"parquet:{fine}"), 2, "nanoseconds", str(fine))


def test_a_capture_that_is_cut_short(kip848: Command, spark: SparkSession, tmp_path: Path) -> None:
    cut = tmp_path / "cut.parquet"
    whole = CAPTURE.read_bytes()
    cut.write_bytes(whole[: len(whole) // 2])
    ended = kip848("run", "--source", f"parquet:{cut}", "--lake", str(tmp_path / "lake"))
    refused(ended, 2, str(cut))
    assert not (tmp_path / "lake").exists()


def test_a_secret_written_out(kip848: Command) -> None:
    ended = kip848("config", "show", "--kafka-option", "sasl.password=hunter2")
    refused(ended, 2, "sasl.password")
    assert "hunter2" not in ended.err + ended.out


def test_a_secret_for_spark(
    kip848: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, written = tmp_path / "kip848.toml", '[spark]\n"spark.hadoop.fs.s3a.secret.key" = "{}"\n'
    file.write_text(written.format("hunter2"))
    ended = kip848("config", "show", "--config", str(file))
    refused(ended, 2, "The Spark setting spark.hadoop.fs.s3a.secret.key")
    assert "hunter2" not in ended.err + ended.out
    file.write_text(written.format("${S3_SECRET}"))
    monkeypatch.setenv("S3_SECRET", "hunter2")
    shown = kip848("config", "show", "--config", str(file))
    assert shown.code == 0
    assert "spark.hadoop.fs.s3a.secret.key" in shown.out
    assert "hunter2" not in shown.out
    monkeypatch.delenv("S3_SECRET")
    ended = kip848(
        "run",
        "--config",
        str(file),
        "--source",
        f"parquet:{CAPTURE}",
        "--lake",
        str(tmp_path / "lake"),
    )
    refused(ended, 2, "S3_SECRET, which is not set")


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ('[spark]\n"spark.executor.extraJavaOptions" = "-Dkey.password=hunter2"', "in its value"),
        ('[kafka]\n"client.rack" = "http://me:hunter2@proxy:80"', "in its value"),
        ('[kafka]\n"ssl.keystore.key" = "hunter2"', "must not be in plain text"),
        ('[kafka]\n"x.passphrase" = "hunter2"', "must not be in plain text"),
        ('lake = "s3://key:hunter2@bucket/lake"', "setting lake has a password"),
        ('source = "kafka:me:hunter2@broker:9092"', "setting source has a password"),
    ],
)
def test_a_secret_in_a_value(kip848: Command, tmp_path: Path, written: str, words: str) -> None:
    file = tmp_path / "kip848.toml"
    file.write_text(written)
    ended = kip848("config", "show", "--config", str(file))
    refused(ended, 2, words)
    assert "hunter2" not in ended.err + ended.out


@pytest.mark.parametrize(
    "written",
    [
        '[spark]\n"spark.executor.extraJavaOptions" = "-Dkey.password=${KEY} -Da=b:c@d"',
        'source = "kafka:[::1]:9092,broker:9092"',
        'lake = "abfss://lake@account.dfs.core.windows.net/lake"',
    ],
)
def test_a_value_without_a_secret(kip848: Command, tmp_path: Path, written: str) -> None:
    file = tmp_path / "kip848.toml"
    file.write_text(written)
    assert kip848("config", "show", "--config", str(file)).code == 0


@pytest.mark.parametrize("written", ["kafka = 5", "[[kafka]]\nx = 1"])
def test_a_section_that_is_none(kip848: Command, tmp_path: Path, written: str) -> None:
    file = tmp_path / "kip848.toml"
    file.write_text(written)
    options = ("--config", str(file), "--kafka-option", "client.id=x")
    refused(kip848("config", "show", *options), 2, "kafka", str(file))


def test_a_folder_is_no_settings_file(
    kip848: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KIP848_CONFIG", str(tmp_path))
    refused(kip848("config", "show"), 2, f"The settings file {tmp_path} is a folder.")


def test_a_setting_that_does_not_exist(kip848: Command, tmp_path: Path) -> None:
    file = tmp_path / "kip848.toml"
    file.write_text('laek = "x"\n')
    ended = kip848("config", "show", "--config", str(file))
    refused(ended, 2, "There is no setting laek", str(file), "Did you mean lake?")
