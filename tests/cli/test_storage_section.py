"""One section of settings serves `run`, which is Spark, and `groups`, which is delta-rs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.test_own_process import SOURCE
from tests.lake.test_store_faults import Proxy
from tests.spark.s3 import KEY, REGION, SECRET, S3Server

pytestmark = pytest.mark.slow


def kip848(settings: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command in an environment without a word about a store, but for the secret."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    # delta-rs and S3A else ask the network for the role of the machine.
    own |= {"STORE_SECRET": SECRET, "AWS_EC2_METADATA_DISABLED": "true"}
    command = [sys.executable, "-m", "kip848_spark", *arguments, "--config", str(settings)]
    return subprocess.run(
        command, env=own, capture_output=True, text=True, timeout=500, check=False
    )


def section(server: S3Server, *, keys: bool = True) -> str:
    lines = [
        "[storage]",
        f'aws_endpoint_url = "{server.endpoint}"',
        "aws_allow_http = true",
        f'aws_region = "{REGION}"',
    ]
    if keys:
        lines += [f'aws_access_key_id = "{KEY}"', 'aws_secret_access_key = "${STORE_SECRET}"']
    return "\n".join(lines)


def test_run_and_groups_by_one_section(s3: S3Server, tmp_path: Path) -> None:
    settings = tmp_path / "kip848.toml"
    settings.write_text(f'lake = "{s3.path("by-section")}"\n{section(s3)}\n')
    done = kip848(settings, "run", "--source", SOURCE)
    assert done.returncode == 0, done.stderr
    shown = kip848(settings, "groups", "--json")
    assert shown.returncode == 0, shown.stderr
    assert len(json.loads(shown.stdout)) > 10


def test_a_store_that_always_refuses(s3: S3Server, tmp_path: Path) -> None:
    """It is not asked for days. With the times of this test, Hadoop's default takes 17 minutes."""
    settings = tmp_path / "kip848.toml"
    quick = {"attempts.maximum": "1", "retry.throttle.interval": "1ms"}
    with Proxy(s3).running() as proxy:
        lines = [section(replace(s3, endpoint=proxy.endpoint))]
        lines += [f'"hadoop.fs.s3a.{name}" = "{value}"' for name, value in quick.items()]
        settings.write_text(f'lake = "{s3.path("busy")}"\n' + "\n".join(lines))
        proxy.fault = "throttled"
        done = kip848(settings, "ingest", "--source", SOURCE)
    assert done.returncode == 3, done.stderr
    assert "refuses requests because there are too many (503)" in done.stderr


@pytest.mark.parametrize("verb", [("ingest", "--source", SOURCE), ("groups",)])
@pytest.mark.parametrize(
    ("bucket", "keys", "output"),
    [("no-such-bucket", True, "no such bucket"), ("lakes", False, "wants credentials")],
)
def test_a_store_that_can_not_be_used(
    verb: tuple[str, ...], bucket: str, keys: bool, output: str, s3: S3Server, tmp_path: Path
) -> None:
    settings = tmp_path / "kip848.toml"
    settings.write_text(f'lake = "s3a://{bucket}/unusable"\n{section(s3, keys=keys)}\n')
    done = kip848(settings, *verb)
    assert done.returncode == 3
    assert output in done.stderr, done.stderr
    assert f"s3a://{bucket}/unusable" in done.stderr
    assert len(done.stderr) < 500, done.stderr
