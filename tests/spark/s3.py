"""A local S3 server with a bucket, and the settings by which Spark and delta-rs reach it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
from botocore.exceptions import EndpointConnectionError

OTHER_SERVER = "KIP848_S3_SERVER"
"""The environment variable that names the program of another S3 server: `versitygw`."""
BUCKET = "lakes"
REGION = "us-east-1"
KEY, SECRET = "test", "not-a-secret"
SECRET_OF = "LAKE_SECRET"
"""The environment variable to which `S3Server.file` refers; Hadoop and delta-rs do not know it."""


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

    def file(self) -> str:
        """The text of a settings file in which Spark's settings reach the server."""
        settings = self.spark | {"spark.hadoop.fs.s3a.secret.key": f"${{{SECRET_OF}}}"}
        lines = [f"{json.dumps(name)} = {json.dumps(value)}" for name, value in settings.items()]
        return "\n".join(["[spark]", *lines, ""])

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
    """Starts moto's server on a free port of 127.0.0.1, makes its bucket, and stops it at the end.

    ``log``: the file for what the server prints.
    """
    port = free_port()
    command = [str(Path(sys.executable).with_name("moto_server")), "-H", "127.0.0.1"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MOTO_", "AWS_"))}
    with running([*command, "-p", str(port)], log, environment) as process:
        server = S3Server(f"http://127.0.0.1:{port}")
        _make_bucket(server, process)
        yield server


@contextmanager
def versity_server(program: str, folder: Path) -> Iterator[S3Server]:
    """As `s3_server`, with the Versity S3 Gateway, which keeps its objects as files in ``folder``
    and checks the signature of each request."""
    port = free_port()
    objects = folder / "objects"
    objects.mkdir()
    command = [program, "--port", f"127.0.0.1:{port}", "--region", REGION, "posix"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("VGW_", "AWS_"))}
    environment |= {"ROOT_ACCESS_KEY_ID": KEY, "ROOT_SECRET_ACCESS_KEY": SECRET}
    command += ["--sidecar", str(folder / "sidecar"), str(objects)]
    (folder / "sidecar").mkdir()
    with running(command, folder / "server.log", environment) as process:
        server = S3Server(f"http://127.0.0.1:{port}")
        _make_bucket(server, process)
        yield server


def free_port() -> int:
    """A port of 127.0.0.1 that nothing listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def running(
    command: Sequence[str], log: Path, environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """A server as a child process, which is stopped at the end. ``log``: what it prints."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def client(server: S3Server) -> Any:
    """A client of boto3."""
    return boto3.client(
        "s3",
        endpoint_url=server.endpoint,
        aws_access_key_id=KEY,
        aws_secret_access_key=SECRET,
        region_name=REGION,
    )


def _make_bucket(server: S3Server, process: subprocess.Popen[bytes]) -> None:
    """Makes the bucket, as soon as the server answers."""
    deadline = time.monotonic() + 60
    while True:
        try:
            client(server).create_bucket(Bucket=server.bucket)
            return
        except EndpointConnectionError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise
            time.sleep(0.1)
