"""A real Spark Connect session is recognized. Runs where ``pyspark[connect]`` is installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.captures import COMMITTED
from tests.conftest import DATA

pytestmark = pytest.mark.slow

SOURCE = f"parquet:{DATA / 'kafka-4.3.1' / COMMITTED}"


def test_a_connect_session_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("grpc_status", reason="pyspark[connect] is not installed")
    lake = tmp_path / "lake"
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.connect_session", SOURCE, str(lake)],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert said == ["UsageError: " + sentence for sentence in [SENTENCE] * 2]
    assert not lake.exists()


SENTENCE = "This is a Spark Connect session. kip848 uses Spark's JVM and needs a classic session."
