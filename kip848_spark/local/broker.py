"""A real Kafka broker on loopback: one node, KRaft, its own temporary folder."""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from kip848_spark.errors import SourceError
from kip848_spark.kafka.admin import admin_client
from kip848_spark.local import dump_log_segments, supervisor
from kip848_spark.runtime.jars import ReportProgress, broker_jars
from kip848_spark.runtime.java import find_java

CANONICAL = "4.3.1"
"""The release whose log printer is the reference for logs of all releases."""

_START_TIMEOUT = 90.0
_STOP_TIMEOUT = 15.0
_QUICK_JVM = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]

DEFAULTS: Mapping[str, str] = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "2",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "2",
    "auto.create.topics.enable": "false",
    # A group can migrate from the classic protocol to the new one and back.
    "group.consumer.migration.policy": "bidirectional",
    "group.coordinator.rebalance.protocols": "classic,consumer",
    # Short timeouts: a dead member is noticed within seconds, and a new one need not wait.
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "4000",
    # A restarted broker can register again at once.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "log.cleaner.enable": "false",
    "log.retention.ms": "-1",
}
"""The settings that differ from Kafka's defaults. The ``settings`` of a `Broker` override them."""


def _random_id() -> str:
    """A random uuid in Kafka's base64 form. It does not begin with a dash, which Kafka's tools
    would take for an option."""
    while (made := urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return made


class Broker:
    """A broker for a ``with`` statement, which stops it and removes its folder at the end.

    ``settings`` are added to `DEFAULTS`. ``client`` has the settings that a client needs to
    connect, such as those of SASL.

    >>> with Broker() as broker:  # doctest: +SKIP
    ...     print(broker.bootstrap)
    """

    def __init__(
        self,
        version: str = CANONICAL,
        folder: Path | None = None,
        *,
        settings: Mapping[str, str] | None = None,
        client: Mapping[str, str] | None = None,
        heap: str = "1g",
        offsets_partitions: int = 8,
        progress: ReportProgress | None = None,
    ) -> None:
        self.version = version
        self.heap = heap
        self.cluster_id = _random_id()
        self.settings = {
            **DEFAULTS,
            "offsets.topic.num.partitions": str(offsets_partitions),
            **(settings or {}),
        }
        self._client = dict(client or {})
        self._progress = progress
        self._given_folder = folder
        self._folder: Path | None = None
        self._port = 0
        self._controller_port = 0
        self._supervisor: subprocess.Popen[bytes] | None = None
        self._pid: int | None = None

    @property
    def bootstrap(self) -> str:
        """The ``bootstrap.servers`` for a client."""
        return f"127.0.0.1:{self._port}"

    @property
    def pid(self) -> int:
        """The process id of the broker's JVM."""
        if self._pid is None:
            raise SourceError("The local broker is not running.")
        return self._pid

    @property
    def folder(self) -> Path:
        """The folder with the broker's configuration, log and output."""
        if self._folder is None:
            raise SourceError("The local broker has not been started.")
        return self._folder

    @property
    def log_dir(self) -> Path:
        """The folder that has a folder for each topic partition."""
        return self.folder / "log"

    @property
    def output(self) -> Path:
        """The file with everything that the broker prints."""
        return self.folder / "broker.log"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def start(self) -> None:
        """Formats the storage the first time, starts the broker, and returns when it answers."""
        if self._supervisor is not None:
            return
        try:
            if self._folder is None:
                self._prepare()
            self._launch()
            self._wait_until_it_answers()
        except BaseException:
            self.close()
            raise

    def stop(self) -> None:
        """Terminates the process, and kills it if it does not end in time. The folder stays."""
        guard, pid = self._supervisor, self._pid
        self._supervisor = self._pid = None
        if guard is None:
            return
        try:
            if pid is not None and guard.poll() is None:
                # The supervisor has not reaped it yet, so the id is still the broker's own.
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    guard.wait(_STOP_TIMEOUT)
        finally:
            for pipe in (guard.stdin, guard.stdout):
                if pipe is not None:
                    pipe.close()  # the supervisor kills what still runs
            try:
                guard.wait(_STOP_TIMEOUT)
            except subprocess.TimeoutExpired:
                guard.kill()
                guard.wait()

    def restart(self) -> None:
        """Stops the broker and starts it again with the same ports and log."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stops the broker, and removes its folder if it is a temporary one."""
        try:
            self.stop()
        finally:
            if self._folder is not None and self._given_folder is None:
                shutil.rmtree(self._folder, ignore_errors=True)
                self._folder = None

    def dump_log(
        self, partition: int, topic: str = dump_log_segments.OFFSETS_TOPIC, tools: str = CANONICAL
    ) -> Iterator[dump_log_segments.DumpedRecord]:
        """The records of one partition as the tools of release ``tools`` print them."""
        return dump_log_segments.dump_log(self.log_dir, partition, topic=topic, tools=tools)

    def dump_all(
        self, topic: str = dump_log_segments.OFFSETS_TOPIC, tools: str = CANONICAL
    ) -> Iterator[dump_log_segments.DumpedRecord]:
        """The records of every partition of a topic, partition by partition."""
        return dump_log_segments.dump_all(self.log_dir, topic=topic, tools=tools)

    def _prepare(self) -> None:
        jars = broker_jars(self.version, self._progress)
        if self._given_folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="kip848-broker-"))
        else:
            self._given_folder.mkdir(parents=True, exist_ok=True)
            self._folder = self._given_folder
        self._port, self._controller_port = _free_ports(2)
        self._write_configuration()
        if (self.log_dir / "meta.properties").exists():
            return
        formatted = subprocess.run(
            [
                *_java(jars, _QUICK_JVM, heap="256m"),
                *("kafka.tools.StorageTool", "format", "-t", self.cluster_id),
                *("-c", str(self._configuration)),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_START_TIMEOUT,
            check=False,
        )
        self.output.write_bytes(formatted.stdout)
        if formatted.returncode:
            raise self._fault("can't format its storage")

    @property
    def _configuration(self) -> Path:
        return self.folder / "server.properties"

    def _write_configuration(self) -> None:
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller_port}",
            "listeners": f"PLAINTEXT://{self.bootstrap},"
            f"CONTROLLER://127.0.0.1:{self._controller_port}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self.log_dir),
            **self.settings,
        }
        self._configuration.write_text("".join(f"{k}={v}\n" for k, v in settings.items()))

    def _launch(self) -> None:
        command = [
            *_java(broker_jars(self.version), ["-XX:+UseSerialGC"], heap=self.heap),
            *("kafka.Kafka", str(self._configuration)),
        ]
        removable = self._folder if self._given_folder is None else None
        self._supervisor = supervisor.start(command, self.output, removable)
        output = self._supervisor.stdout
        assert output is not None
        ready, _, _ = select.select([output], [], [], _START_TIMEOUT)
        line = output.readline() if ready else b""
        if not line:
            raise self._fault("can't be started")
        self._pid = int(line)

    def _wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + _START_TIMEOUT
        admin = None
        while time.monotonic() < deadline:
            if self._supervisor is None or self._supervisor.poll() is not None:
                raise self._fault("ended while it started")
            if admin is None:
                try:
                    socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
                except OSError:
                    time.sleep(0.05)
                    continue
                admin = admin_client(self.bootstrap, self._client)
            from confluent_kafka import KafkaException

            with contextlib.suppress(KafkaException):
                if admin.list_topics(timeout=1).brokers:
                    return
            time.sleep(0.05)
        raise self._fault(f"does not answer after {_START_TIMEOUT:.0f} s")

    def _fault(self, what: str) -> SourceError:
        return SourceError(
            f"The local Kafka {self.version} broker {what}: {_last_message(self.output)}",
            hint="Try again: the next start uses other ports. A broker needs about 1 GB of memory.",
        )


def _java(jars: list[Path], options: list[str], heap: str) -> list[str]:
    classpath = os.pathsep.join(str(jar) for jar in jars)
    logging = [f"-Dorg.slf4j.simpleLogger.{k}=true" for k in ("showDateTime", "showLogName")]
    return [str(find_java()), f"-Xmx{heap}", *options, *logging, "-cp", classpath]


def _free_ports(count: int) -> list[int]:
    """Free ports. They are bound at the same time, so that they differ."""
    with contextlib.ExitStack() as held:
        ports = []
        for _ in range(count):
            probe = held.enter_context(socket.socket())
            probe.bind(("127.0.0.1", 0))
            ports.append(int(probe.getsockname()[1]))
        return ports


def _last_message(output: Path) -> str:
    """The last error message in a log, without its stack trace; without errors the last line."""
    try:
        lines = [line.strip() for line in output.read_text(errors="replace").splitlines()]
    except OSError:
        lines = []
    spoken = [line for line in lines if line and not re.match(r"at |\.\.\. \d+ more", line)]
    errors = [line for line in spoken if re.search(r"ERROR|FATAL|Exception|Error:", line)]
    return (errors or spoken or ["it printed nothing."])[-1]
