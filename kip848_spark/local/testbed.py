"""A local broker with its topics and consumers, for scenarios to act on.

Nothing here sleeps for a fixed time. A scenario waits until the broker reports that a group is
stable, and fails with one sentence if it never is.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kip848_spark.errors import SourceError
from kip848_spark.kafka.admin import LOG, Cluster
from kip848_spark.kafka.snapshot import LiveGroup
from kip848_spark.local.broker import Broker
from kip848_spark.local.consumer_process import ConsumerProcess

_TIMEOUT = 60.0
_POLL_INTERVAL = 0.1
_REST = 1.5
"""How long nothing must be written until the groups count as idle, in seconds."""
_REQUEST = 5.0


class BrokerTestbed:
    """A running broker and the consumers started on it. Threads may share it."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.cluster = Cluster(broker.bootstrap, timeout=_REQUEST)
        self._members: list[ConsumerProcess] = []
        self._lock = threading.Lock()
        self._closed = False

    @property
    def members(self) -> list[ConsumerProcess]:
        """The consumers that are still running."""
        with self._lock:
            return [member for member in self._members if member.alive]

    def create_offsets_topic(self) -> None:
        """Makes the broker create ``__consumer_offsets``, as it does on the first request about a
        group.

        The request is for a group's committed offsets, which waits for the coordinator to start. A
        request to describe a group would hang until its timeout.
        """
        from confluent_kafka import Consumer, KafkaException, TopicPartition

        consumer = Consumer(
            {"bootstrap.servers": self.broker.bootstrap, "group.id": "demo.nobody"}, logger=LOG
        )
        deadline = time.monotonic() + _TIMEOUT
        try:
            while True:
                try:
                    consumer.committed([TopicPartition("foo", 0)], timeout=_TIMEOUT)
                    return
                except KafkaException as cause:
                    # A coordinator that is still loading refuses requests at first.
                    if time.monotonic() > deadline:
                        raise SourceError(
                            f"The local broker has no group coordinator: {cause}."
                        ) from cause
                time.sleep(0.2)
        finally:
            consumer.close()

    def create_topics(self, **partitions: int) -> None:
        """Creates topics by name and number of partitions; ``_`` in a name stands for ``-``."""
        create_topics(
            self.cluster, {name.replace("_", "-"): count for name, count in partitions.items()}
        )

    def add_partitions(self, topic: str, partitions: int) -> None:
        """Adds partitions to ``topic`` until it has this many."""
        _wait_for_all(
            self.cluster.admin.create_partitions([_kafka().NewPartitions(topic, partitions)])
        )

    def delete_topic(self, topic: str) -> None:
        """Deletes a topic."""
        _wait_for_all(self.cluster.admin.delete_topics([topic]))

    def delete_group(self, group: str) -> None:
        """Deletes an empty group."""
        _wait_for_all(self.cluster.admin.delete_consumer_groups([group]))

    def configure_group(self, group: str, **settings: str) -> None:
        """Changes settings of one group; ``_`` in a name stands for ``.``."""
        kafka = _kafka()
        add = kafka.AlterConfigOpType.SET
        entries = [
            kafka.ConfigEntry(name.replace("_", "."), value, incremental_operation=add)
            for name, value in settings.items()
        ]
        resource = kafka.ConfigResource(
            kafka.ResourceType.GROUP, group, incremental_configs=entries
        )
        _wait_for_all(self.cluster.admin.incremental_alter_configs([resource]))

    def join(self, group: str, topics: Sequence[str] = (), **how: Any) -> ConsumerProcess:
        """Starts a consumer. ``how``: the keyword arguments of `ConsumerProcess`."""
        member = ConsumerProcess(self.broker.bootstrap, group, topics, **how)
        with self._lock:
            self._members.append(member)
            late = self._closed
        if late:
            member.kill()
        return member

    def describe(self, group: str) -> LiveGroup | None:
        """The group's current state on the broker; None if the broker does not describe it."""
        with contextlib.suppress(SourceError):  # the caller repeats a request that timed out
            return self.cluster.describe([group])[0].get(group)
        return None

    def wait_until_stable(self, group: str, *shape: int, kind: str | None = None) -> LiveGroup:
        """Waits until the group is stable (without members: empty), with these numbers of
        partitions for its members, the largest first.

        In a stable consumer-protocol group every member has reached its target assignment.
        ``kind`` is the type that the group must have, if it matters.
        """

        def rests(found: LiveGroup) -> bool:
            counts = sorted((len(member.assigned) for member in found.members), reverse=True)
            return (
                found.state == ("Stable" if shape else "Empty")
                and counts == list(shape)
                and kind in (None, found.type)
                and all(one.target is None or one.target == one.assigned for one in found.members)
            )

        return self.wait_until(group, rests, f"become stable with {list(shape)} partitions")

    def wait_until(self, group: str, holds: Callable[[LiveGroup], bool], what: str) -> LiveGroup:
        """Waits until ``holds`` is true of the group. Raises SourceError after a minute."""
        deadline = time.monotonic() + _TIMEOUT
        while True:
            found = self.describe(group)
            if found is not None and holds(found):
                return found
            if self._closed:
                raise SourceError(f"The wait for the group {group} was interrupted.")
            if time.monotonic() > deadline:
                raise SourceError(
                    f"The group {group} did not {what} in {_TIMEOUT:.0f} s: {_describe(found)}."
                )
            time.sleep(_POLL_INTERVAL)

    def wait_until_idle(self) -> None:
        """Waits until nothing has been written to ``__consumer_offsets`` for `_REST` seconds."""
        deadline = time.monotonic() + _TIMEOUT
        ends = self.cluster.ends()
        since = time.monotonic()
        while time.monotonic() - since < _REST:
            if time.monotonic() > deadline:
                raise SourceError(f"The consumer groups still write after {_TIMEOUT:.0f} s.")
            time.sleep(_POLL_INTERVAL)
            now = self.cluster.ends()
            if now != ends:
                ends, since = now, time.monotonic()

    def close(self) -> None:
        """Kills every consumer that is still running."""
        with self._lock:
            self._closed = True
            members = list(self._members)
        for member in members:
            member.kill()


def create_topics(cluster: Cluster, partitions: Mapping[str, int]) -> None:
    """Creates topics by name and number of partitions, and waits for them."""
    new = [_kafka().NewTopic(name, count) for name, count in partitions.items()]
    _wait_for_all(cluster.admin.create_topics(new, request_timeout=30))
    wait_for_topics(cluster, list(partitions))


def wait_for_topics(cluster: Cluster, names: Sequence[str]) -> None:
    """Waits until a broker describes new topics: the controller answers the request to create
    them before the brokers have them in their metadata."""
    deadline = time.monotonic() + _TIMEOUT
    while True:
        try:
            cluster.topics(names)
            return
        except SourceError:
            if time.monotonic() > deadline:
                raise
        time.sleep(_POLL_INTERVAL)


def _describe(found: LiveGroup | None) -> str:
    if found is None:
        return "the broker does not describe it"
    counts = [len(member.assigned) for member in found.members]
    return f"it is {found.type}, {found.state}, its members have {counts} partitions"


def _kafka() -> Any:
    """The admin module, untyped because its type stubs lack names."""
    from confluent_kafka import admin

    return admin


def _wait_for_all(answers: dict[Any, Any]) -> None:
    from confluent_kafka import KafkaException

    for name, answer in answers.items():
        try:
            answer.result(60)
        except KafkaException as cause:
            raise SourceError(f"The broker refuses {name}: {cause.args[0].str()}.") from cause
