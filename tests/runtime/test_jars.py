"""Jars: cached after the first download, verified, and a clear message if they are not
available."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from kip848_spark.errors import EnvironmentFault
from kip848_spark.runtime import jars, java


@pytest.fixture
def no_downloads(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("it started a program")

    monkeypatch.setattr(jars.subprocess, "Popen", refuse)
    monkeypatch.setattr(java.subprocess, "run", refuse)


def fake_ivy(monkeypatch: pytest.MonkeyPatch, *output: str, files: dict[str, bytes], code: int = 0):
    """Replaces Ivy by a shell that prints lines and writes files."""
    java.find_java()  # it starts a process, and remembers the answer
    real = subprocess.Popen

    def popen(command: list[str], **how: object) -> object:
        folder = Path(command[command.index("-retrieve") + 1]).parent
        script = ["mkdir -p " + str(folder)]
        script += [f"printf %s '{text.decode()}' > {folder}/{name}" for name, text in files.items()]
        script += [f"echo '{line}'" for line in output]
        return real(["sh", "-c", "; ".join([*script, f"exit {code}"])], **how)

    monkeypatch.setattr(jars.subprocess, "Popen", popen)


def test_the_second_call_only_reads(broker: object, no_downloads: None) -> None:
    started = time.perf_counter()
    found = jars.broker_jars("4.3.1")
    assert time.perf_counter() - started < 0.5
    assert "kafka_2.13-4.3.1.jar" in {jar.name for jar in found}


@pytest.mark.parametrize("release", ["4.0", "4.1", "4.2"])
def test_the_lock_file_lists_the_jars_of_each_spark(release: str) -> None:
    names = sorted(jars.locked("spark" if release == "4.2" else f"spark-{release}") or {})
    assert [name for name in names if name.startswith(("delta-spark", "spark-"))] == [
        f"delta-spark_{release}_2.13-4.4.0.jar",
        f"spark-sql-kafka-0-10_2.13-{release}.0.jar",
        "spark-token-provider-kafka-0-10_2.13-4.0.0.jar",
    ]


def test_the_other_configurations() -> None:
    assert jars.locked("broker-4.3.1")
    assert jars.locked("broker-4.0.2")
    assert jars.locked("broker-3.7.2") is None


@pytest.mark.parametrize("version", ["4.0.5", "4.1.4", "4.2.0"])
def test_the_installed_spark_chooses_the_jars(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setenv("KIP848_CACHE", str(tmp_path))
    monkeypatch.setattr(jars.importlib.metadata, "version", lambda _: version)
    release = version.rsplit(".", 1)[0]
    assert jars.spark_release() == release
    other = f"delta-spark_{release}_2.13-4.4.0.jar"
    fake_ivy(monkeypatch, files={other: b"not it"})
    with pytest.raises(EnvironmentFault, match=r"not what conf/jars\.lock expects") as fault:
        jars.spark_jars()
    assert other in fault.value.message


@pytest.mark.parametrize("version", ["3.5.6", "4.3.0"])
def test_a_spark_without_jars(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr(jars.importlib.metadata, "version", lambda _: version)
    with pytest.raises(EnvironmentFault, match=f"pyspark {version} is installed") as fault:
        jars.spark_jars()
    assert "4.0, 4.1 or 4.2" in str(fault.value.hint)


def test_s3_needs_the_newest_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars.importlib.metadata, "version", lambda _: "4.1.4")
    with pytest.raises(EnvironmentFault, match=r"s3a:// need Spark 4\.2"):
        jars.s3_jars()


def test_jars_that_differ_from_the_lock_file_are_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KIP848_CACHE", str(tmp_path))
    fake_ivy(monkeypatch, files={"kafka-clients-3.9.2.jar": b"not it"})
    with pytest.raises(EnvironmentFault, match=r"not what conf/jars.lock expects.*kafka-clients"):
        jars.spark_jars()
    assert [path.name for path in (tmp_path / "jars").iterdir()] == [".lock"]


@pytest.mark.parametrize(
    ("output", "sentence"),
    [
        ("Server access error: java.net.UnknownHostException", "does not answer"),
        ("\t\t:: org.apache.kafka#kafka_2.13;4.9.9: not found", "Kafka 4.9.9 cannot be downloaded"),
        ("something else", "something else"),
    ],
)
def test_a_failed_download_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str, sentence: str
) -> None:
    monkeypatch.setenv("KIP848_CACHE", str(tmp_path))
    fake_ivy(monkeypatch, output, files={}, code=1)
    with pytest.raises(EnvironmentFault, match=sentence) as fault:
        jars.broker_jars("4.9.9")
    assert fault.value.hint
    assert "\n" not in fault.value.message


def test_a_release_without_a_lock_is_cached_and_downloaded_again_if_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KIP848_CACHE", str(tmp_path))
    leftover = tmp_path / "jars" / "tmp-leftover-by-a-killed-one"
    leftover.mkdir(parents=True)
    progress: list[str] = []
    fake_ivy(
        monkeypatch,
        "\tfound org.apache.kafka#kafka_2.13;4.9.9 in public",
        "downloading https://a.mirror/kafka_2.13-4.9.9.jar ...",
        files={"kafka_2.13-4.9.9.jar": b"a jar"},
    )
    (jar,) = jars.broker_jars("4.9.9", progress.append)
    assert progress == ["found kafka_2.13 4.9.9", "downloading kafka_2.13-4.9.9.jar"]
    assert not leftover.exists()
    jar.write_bytes(b"cut")
    assert jars.broker_jars("4.9.9") == [jar]
    assert jar.read_bytes() == b"a jar"


@pytest.mark.parametrize("version", ["4.3", "latest", "../4.3.1"])
def test_a_release_must_look_like_one(version: str) -> None:
    with pytest.raises(EnvironmentFault, match="not the number of a Kafka release"):
        jars.broker_jars(version)


def java_that_says(folder: Path, line: str) -> None:
    program = folder / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho '{line}' >&2\n")
    program.chmod(0o755)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ('openjdk version "1.8.0_392"', "Java 8, but 17 or later is needed"),
        ('openjdk version "11.0.2" 2019-01-15', "Java 11, but 17 or later is needed"),
        ("not a Java", "does not report its version"),
    ],
)
def test_an_unfit_java(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, sentence: str
) -> None:
    java_that_says(tmp_path, line)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(EnvironmentFault, match=sentence) as fault:
        java.find_java()
    assert fault.value.hint


def test_java_home_comes_before_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java_that_says(tmp_path, 'openjdk version "21" 2023-09-19')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert java.find_java() == tmp_path / "bin" / "java"


def test_no_java_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentFault, match="no Java"):
        java.find_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(EnvironmentFault, match="JAVA_HOME is"):
        java.find_java()
