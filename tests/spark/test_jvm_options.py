"""The collector of a local session: none beside the one that a user has chosen."""

from __future__ import annotations

from pathlib import Path

import pytest

from kip848_spark.spark.jvm_options import COLLECTOR, collector_options

USERS = "-Dusers.own=yes -XX:+UseShenandoahGC"


@pytest.fixture(autouse=True)
def no_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing around the tests chooses a collector."""
    for name in ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)


def test_without_a_choice_it_is_ours(tmp_path: Path) -> None:
    settings = {"spark.driver.extraJavaOptions": "-Xlog:gc -XX:MaxGCPauseMillis=50"}
    assert collector_options(settings, tmp_path) == (COLLECTOR,)


@pytest.mark.parametrize(
    "name", ["spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions"]
)
def test_a_users_setting(name: str, tmp_path: Path) -> None:
    assert collector_options({name: USERS}, tmp_path) == ()


@pytest.mark.parametrize(
    "name", ["JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS"]
)
def test_a_variable(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, USERS)
    assert collector_options({}, tmp_path) == ()


@pytest.mark.parametrize("name", ["spark-defaults.conf", "java-opts", "spark-env.sh"])
def test_sparks_own_files(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "conf").mkdir()
    file = tmp_path / "conf" / name
    file.write_text(f"spark.driver.defaultJavaOptions {USERS}\n")
    assert collector_options({}, tmp_path) == ()
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "other"))
    assert collector_options({}, tmp_path) == (COLLECTOR,)
