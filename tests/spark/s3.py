"""A local S3 server with a bucket, and the settings by which Spark and delta-rs reach it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

BUCKET = "lakes"
REGION = "us-east-1"
KEY, SECRET = "test", "not-a-secret"


@dataclass(frozen=True)
class S3Server:
    """A running server; ``endpoint`` is its URL."""

    endpoint: str
    bucket: str = BUCKET

    def path(self, name: str) -> str:
        """Where ``name`` is in the bucket, as Spark and delta-rs spell it."""
        return f"s3a://{self.bucket}/{name}"

    @property
    def spark(self) -> dict[str, str]:
        """Spark's settings."""
        settings = {
            "endpoint": self.endpoint,
            "endpoint.region": REGION,
            "path.style.access": "true",
            "access.key": KEY,
            "secret.key": SECRET,
        }
        return {f"spark.hadoop.fs.s3a.{name}": value for name, value in settings.items()}

    @property
    def storage_options(self) -> dict[str, str]:
        """The storage options of delta-rs; as environment variables they do the same."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": REGION,
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
        }


@contextmanager
def s3_server(log: Path) -> Iterator[S3Server]:
    """Starts a server on a free port of 127.0.0.1, makes its bucket, and stops it at the end.

    ``log``: the file for what the server prints.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(Path(sys.executable).with_name("moto_server")), "-H", "127.0.0.1"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MOTO_", "AWS_"))}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "-p", str(port)], stdout=output, stderr=output, env=environment
        )
    try:
        server = S3Server(f"http://127.0.0.1:{port}")
        _make_bucket(server, process)
        yield server
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _make_bucket(server: S3Server, process: subprocess.Popen[bytes]) -> None:
    """Makes the bucket, as soon as the server answers."""
    request = urllib.request.Request(f"{server.endpoint}/{server.bucket}", method="PUT")
    deadline = time.monotonic() + 60
    while True:
        try:
            urllib.request.urlopen(request, timeout=10).close()
            return
        except urllib.error.HTTPError:
            raise
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise
            time.sleep(0.1)
