"""A capture of a broker whose groups are those of Connect, Kafka Streams and share consumers.

    python -m tests.capture_other_clients tests/data/clients-4.3.1

Two Connect workers, two instances of a Streams application in either protocol and a share consumer,
all of them Kafka's own, come and go; `records.parquet` and `dump.jsonl.gz` are kept.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from kip848_spark.kafka.admin import admin_client
from kip848_spark.kafka.cluster import snapshot
from kip848_spark.local.broker import Broker
from kip848_spark.runtime.jars import artifact_jars
from kip848_spark.runtime.java import find_java
from tests import share_streams_conversations
from tests.captures import DUMP, RECORDS, write_dump, write_records

RELEASE = "4.3.1"
CONNECT = "org.apache.kafka.connect.cli.ConnectDistributed"
_CLIENTS = Path(__file__).parent / "java" / "Clients.java"
_ARTIFACTS = ("connect-runtime", "connect-file", "kafka-streams")
_JVM = ["-Xmx300m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
_WORKER = """
bootstrap.servers={bootstrap}
group.id=connect-cluster
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.storage.StringConverter
config.storage.topic=connect-configs
offset.storage.topic=connect-offsets
status.storage.topic=connect-status
config.storage.replication.factor=1
offset.storage.replication.factor=1
status.storage.replication.factor=1
listeners=http://127.0.0.1:0
plugin.discovery=service_load
"""


class Clients:
    """The processes, each known by its own pid."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        artifacts = [f"org.apache.kafka:{name}:{RELEASE}" for name in _ARTIFACTS]
        jars = artifact_jars(
            f"clients-{RELEASE}", [*artifacts, "org.slf4j:slf4j-simple:1.7.36"], transitive=True
        )
        path = os.pathsep.join(str(jar) for jar in jars)
        self._java = [str(find_java()), *_JVM, "-cp", path]
        self._bootstrap, self._folder = bootstrap, folder
        self._running: list[subprocess.Popen[bytes]] = []

    def worker(self) -> None:
        """A Connect worker, for as long as all run."""
        settings = self._folder / "worker.properties"
        settings.write_text(_WORKER.format(bootstrap=self._bootstrap))
        self._start(CONNECT, str(settings))

    def client(self, kind: str, group: str, seconds: float) -> None:
        """A share consumer, or a Streams application in the protocol ``kind``."""
        state = self._folder / f"state-{len(self._running)}"
        milliseconds = str(round(seconds * 1000))
        self._start(str(_CLIENTS), kind, self._bootstrap, group, milliseconds, str(state))

    def _start(self, *what: str) -> None:
        with (self._folder / f"output-{len(self._running)}").open("wb") as output:
            command = [*self._java, *what]
            self._running.append(subprocess.Popen(command, stdout=output, stderr=output))

    def stop(self) -> None:
        for one in self._running:
            one.terminate()
        for one in self._running:
            try:
                one.wait(30)
            except subprocess.TimeoutExpired:
                one.kill()
                one.wait()


def make(out_dir: Path) -> None:
    """Run them, and keep what came of it."""
    out_dir.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        Broker(
            RELEASE, settings=share_streams_conversations.SETTINGS, offsets_partitions=4
        ) as broker,
    ):
        topics = [NewTopic("words", 3, 1), NewTopic("counts", 3, 1)]
        for name, partitions in (("configs", 1), ("offsets", 2), ("status", 1)):
            compacted = {"cleanup.policy": "compact"}
            topics.append(NewTopic(f"connect-{name}", partitions, 1, config=compacted))
        admin = admin_client(broker.bootstrap)
        for made in admin.create_topics(topics).values():
            made.result()
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for n in range(300):
            producer.produce("words", key=str(n), value=f"wörd{n % 7}", partition=n % 3)
        producer.flush()
        clients = Clients(broker.bootstrap, Path(folder))
        try:
            clients.worker()
            for kind, group in (("classic", "old"), ("streams", "new"), ("share", "shared")):
                clients.client(kind, f"{group}-application", 45)
            time.sleep(20)
            clients.worker()
            for kind, group in (("classic", "old"), ("streams", "new")):
                clients.client(kind, f"{group}-application", 15)
            time.sleep(40)
        finally:
            clients.stop()
        text = snapshot(broker.bootstrap)
        write_records(broker.bootstrap, text, out_dir / RECORDS, "read_uncommitted")
        write_dump(broker, out_dir / DUMP)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
