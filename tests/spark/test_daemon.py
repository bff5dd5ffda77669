"""The daemon of Spark's Python workers, started and spoken to as Spark's JVM does."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile

import psutil
from pyspark.sql import SparkSession

MODULE = "spark.python.daemon.module"


def test_a_worker_that_waits_ends_without_a_traceback(spark: SparkSession) -> None:
    """Spark closes the sockets of idle workers after a minute, and when it stops."""
    module = spark.conf.get(MODULE, "pyspark.daemon")
    with tempfile.TemporaryDirectory() as folder:
        daemon = subprocess.Popen(
            [sys.executable, "-m", module, "pyspark.worker"],
            env={
                **os.environ,
                "PYTHON_UNIX_DOMAIN_ENABLED": "true",
                "PYTHON_WORKER_FACTORY_SOCK_DIR": folder,
                "SPARK_REUSE_WORKER": "1",
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert daemon.stdout is not None
        length = int.from_bytes(daemon.stdout.read(4), "big")
        with socket.socket(socket.AF_UNIX) as idle:
            idle.connect(daemon.stdout.read(length))
            worker = psutil.Process(int.from_bytes(idle.recv(4), "big"))
        worker.wait(60)
        output = daemon.communicate(timeout=60)[1].decode()
    assert output == ""
