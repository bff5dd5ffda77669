"""Heavy churn on a real broker: generated conversations in raw requests, many groups at a time.

    python -m tests.capture_churn 4.3.1 DIR [--seed N] [--groups N] [--restart] [--cleaner]
                                    [--others] [--streams] [--moving] [--rack] [--dump]
                                    [--then RELEASES]

writes what `tests.captures` writes of the scenarios: `records-committed.parquet` and `live.json`,
or, with ``--dump``, `records.parquet` and what Kafka's own tool prints of the same log (a 3.7
broker gives the records alone: the tool can't read them all).
With ``--then 4.3.1,4.1.2`` the broker restarts twice, each time with the next of these releases.
With ``--cleaner`` the topic is read twice: in the middle (`first.parquet`) and, from there on, at
the end, when the log cleaner has been over it.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import KafkaException
from confluent_kafka.admin import NewPartitions, NewTopic

from kip848_spark.kafka.admin import Cluster, admin_client
from kip848_spark.kafka.cluster import snapshot
from kip848_spark.kafka.snapshot import LiveEnds
from kip848_spark.local.broker import Broker
from kip848_spark.simulation.log import SCHEMA
from tests.captures import COMMITTED, DUMP, LIVE, RECORDS, read_topic, write_dump
from tests.coordinator.broker_comparison import VERSIONS
from tests.coordinator.conversation import Conversation, Json, Pauses
from tests.coordinator.random_conversations import consumers, migrations, patterns, restarts
from tests.coordinator.wire import Connection
from tests.share_streams_conversations import SETTINGS as SHARE_STREAMS_SETTINGS
from tests.share_streams_conversations import share, streams
from tests.streams_conversations import applications, broker_settings

FIRST = "first.parquet"
CLEANED = {
    "log.cleaner.enable": "true",
    # The cleaner leaves the newest segment alone; since 4.1 a segment has a mebibyte at least.
    "offsets.topic.segment.bytes": "1048576",
    "log.roll.ms": "1000",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.cleaner.backoff.ms": "200",
    "log.cleaner.delete.retention.ms": "100",
}
EARLY_ACCESS = {
    "group.coordinator.new.enable": "true",
    "unstable.api.versions.enable": "true",
}
"""What a broker of Kafka 3.7 needs to have consumer groups at all."""
_AT_ONCE = 6
_PATIENCE = 60.0


class BrokerClients:
    """The part of `BrokerComparison` that a conversation uses, with a broker alone."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.admin = admin_client(broker.bootstrap)
        self.topic_ids: dict[str, str] = {}
        self._connections = threading.local()

    def topic(self, name: str, partitions: int) -> str:
        """Create a topic, or let it grow."""
        if name in self.topic_ids:
            self.retry(lambda: self.admin.create_partitions([NewPartitions(name, partitions)]))
        else:
            self.retry(lambda: self.admin.create_topics([NewTopic(name, partitions, 1)]))
            self.topic_ids[name] = name
        time.sleep(0.3)  # until the coordinator has heard of it, mostly
        return name

    def delete_topic(self, name: str) -> None:
        self.retry(lambda: self.admin.delete_topics([name]))
        self.topic_ids.pop(name)
        time.sleep(0.3)

    def retry(self, request: Callable[[], dict[Any, Any]]) -> None:
        """Retry until it succeeds; a restarting broker may refuse first, or be done already."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                for future in request().values():
                    future.result(_PATIENCE)
                return
            except KafkaException as error:
                done = ("EXIST", "UNKNOWN_TOPIC", "INVALID_PARTITIONS")
                if any(word in error.args[0].name() for word in done):
                    return
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.3)

    def send(
        self, client: str, api: str, request: Json, *, version: int | None = None, where: str = ""
    ) -> Json | None:
        """Send a request; None if the answer has to wait (for other members to join)."""
        waits = api in ("JoinGroup", "SyncGroup")
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            try:
                connection = self._connection(where, client)
                chosen = VERSIONS[api] if version is None else version
                if api == "ConsumerGroupHeartbeat" and not chosen:
                    request = {k: v for k, v in request.items() if k != "subscribedTopicRegex"}
                number = connection.send(api, chosen, request)
                answer = connection.receive(number, 0.3 if waits else 10)
            except OSError:
                answer = None
                self._drop(where, client)
                time.sleep(0.3)
                continue
            if answer is None:
                self._drop(where, client)  # a broker takes one request at a time from a connection
                if waits:
                    return None
                continue
            if answer.get("errorCode") in ("COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR",
                                           "COORDINATOR_NOT_AVAILABLE"):  # fmt: skip
                time.sleep(0.1)
                continue
            return answer
        raise TimeoutError(f"no answer to {api} of {client}")

    def _connection(self, where: str, client: str) -> Connection:
        held: dict[tuple[str, str], Connection] = self._connections.__dict__.setdefault("held", {})
        if (where, client) not in held:
            held[where, client] = Connection(self.broker.bootstrap, client)
        return held[where, client]

    def _drop(self, where: str, client: str) -> None:
        """Let go of a connection; it is closed when nobody waits for its answer any more."""
        self._connections.__dict__.get("held", {}).pop((where, client), None)

    def finish(self) -> None:
        """Close this thread's connections."""
        for connection in self._connections.__dict__.pop("held", {}).values():
            connection.close()


ConversationFunction = Callable[[Any, int], Pauses]
CONSUMERS: tuple[ConversationFunction, ...] = (
    *[consumers] * 3,
    migrations,
)
MOVING: tuple[ConversationFunction, ...] = (
    *[migrations, patterns] * 2, restarts, consumers,
)  # fmt: skip
OTHERS: tuple[ConversationFunction, ...] = (
    share,
    streams,
)


def churn(
    broker: Broker,
    seed: int,
    groups: int,
    halfway: Callable[[], None],
    functions: Sequence[ConversationFunction],
    stops: int = 1,
) -> None:
    """``groups`` conversations, a few at a time. ``halfway`` is called when half are done, or so
    many times at equal intervals."""
    clients = BrokerClients(broker)
    done = threading.Semaphore(0)

    def run(name: str, function: ConversationFunction, own_seed: int) -> None:
        try:
            conversation = Conversation(clients, name)  # type: ignore[arg-type]
            for pause in function(conversation, own_seed):
                time.sleep(pause)
        finally:
            clients.finish()
            done.release()

    filters = {"statesFilter": []} | ({"typesFilter": []} if VERSIONS["ListGroups"] > 4 else {})
    clients.send("finder", "ListGroups", filters, where="f:")
    number = Connection(broker.bootstrap, "finder")
    for _ in range(200):
        sent = number.send("FindCoordinator", 4, {"keyType": 0, "coordinatorKeys": ["any"]})
        answer = number.receive(sent, 5)
        if answer and answer["coordinators"][0]["errorCode"] == "NONE":
            break
        time.sleep(0.1)
    number.close()
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        running = []
        for n in range(groups):
            function = functions[n % len(functions)]
            name = getattr(function, "__name__", "application")
            running.append(pool.submit(run, f"{name}{n}", function, seed * 1000 + n))
        for _ in range(stops):
            for _ in range(groups // (stops + 1)):
                done.acquire()
            halfway()
        for one in running:
            one.result()


def make(arguments: argparse.Namespace) -> None:
    """Run it, and keep what came of it."""
    out_dir: Path = arguments.out
    out_dir.mkdir(parents=True, exist_ok=True)
    settings = (CLEANED if arguments.cleaner else {}) | (
        SHARE_STREAMS_SETTINGS if arguments.others else {}
    )
    settings |= {"broker.rack": "rack-a"} if arguments.rack else {}
    settings |= broker_settings(arguments.version) if arguments.streams else {}
    if arguments.moving and arguments.version.startswith(("4.3", "4.4")):
        settings |= {"group.consumer.assignment.interval.ms": "0"}
    early = arguments.version.startswith("3.")
    if early:
        settings |= EARLY_ACCESS
        VERSIONS.update(ConsumerGroupHeartbeat=0, ConsumerGroupDescribe=0, ListGroups=4)
    with Broker(arguments.version, settings=settings, offsets_partitions=4) as broker:
        read: dict[int, int] = {}
        releases = arguments.then.split(",") if arguments.then else []
        stops = max(1, len(releases))

        def halfway() -> None:
            if arguments.cleaner:
                read.update(_ends(Cluster(broker.bootstrap, timeout=_PATIENCE).ends()))
                _write(broker.bootstrap, read, out_dir / FIRST)
            if releases:
                broker.version = releases.pop(0)
            if arguments.restart or arguments.then:
                broker.restart()

        functions = OTHERS if arguments.others else MOVING if arguments.moving else CONSUMERS
        functions = functions[:1] if early else functions
        if arguments.streams:
            functions = (partial(applications, release=arguments.version),)
        # An early-access broker gives answers that can't be read: that conversation is over then.
        with suppress(*[Exception] * early):
            churn(broker, arguments.seed, arguments.groups, halfway, functions, stops)
        time.sleep(6)  # sessions that nobody keeps up expire
        if arguments.dump or early:
            ends = _ends(Cluster(broker.bootstrap, timeout=_PATIENCE).ends())
            _write(broker.bootstrap, ends, out_dir / RECORDS)
            if not early:
                write_dump(broker, out_dir / DUMP)
            return
        output = snapshot(broker.bootstrap)
        _write(broker.bootstrap, _ends(output.ends), out_dir / COMMITTED)
    written_by = ",".join([arguments.version, *(arguments.then or "").split(",")]).rstrip(",")
    (out_dir / LIVE).write_text(json.dumps({"kafka": written_by, **output.to_json()}) + "\n")


def _ends(ends: dict[int, LiveEnds]) -> dict[int, int]:
    return {partition: found.end for partition, found in ends.items()}


def _write(bootstrap: str, ends: dict[int, int], path: Path) -> None:
    rows = read_topic(bootstrap, ends, "read_committed")
    rows.sort(key=lambda row: (row["partition"], row["offset"]))
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), path, compression="zstd")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("version")
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--groups", type=int, default=40)
    parser.add_argument("--restart", action="store_true")
    parser.add_argument("--cleaner", action="store_true")
    parser.add_argument("--others", action="store_true", help="share and streams groups")
    parser.add_argument("--streams", action="store_true", help="streams groups of many kinds")
    parser.add_argument(
        "--moving", action="store_true", help="groups that migrate, expressions, static members"
    )
    parser.add_argument("--then", help="releases that the broker restarts with, one by one")
    parser.add_argument("--rack", action="store_true", help="the broker says where it is")
    parser.add_argument(
        "--dump", action="store_true", help="the records and Kafka's reading of them"
    )
    make(parser.parse_args())
