"""What a scenario acts on: a broker, topics, consumers, and a patient look at what became of them.

Nothing here sleeps for a time that is hoped to be long enough: a scenario waits until the broker
itself says that the group has come to rest, and fails in one sentence if it never does.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from kip848_spark.errors import SourceError
from kip848_spark.kafka.admin import LOG, Cluster
from kip848_spark.kafka.snapshot import LiveGroup
from kip848_spark.local.broker import Broker
from kip848_spark.local.consumer_process import Member

_PATIENCE = 60.0
_LOOK = 0.1
_REQUEST = 5.0


class Stage:
    """The broker and everything that the scenarios have put on it. Safe to share by threads."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.cluster = Cluster(broker.bootstrap, timeout=_REQUEST)
        self._members: list[Member] = []
        self._lock = threading.Lock()
        self._closed = False

    @property
    def members(self) -> list[Member]:
        """The consumers that still run."""
        with self._lock:
            return [member for member in self._members if member.alive]

    def ready(self) -> None:
        """Have the broker make ``__consumer_offsets``, as it does when first asked for a group.

        A plain question after a group's offsets, which waits for the coordinator to come up; the
        client's description of a group would hang until its time is over.
        """
        from confluent_kafka import Consumer, KafkaException, TopicPartition

        consumer = Consumer(
            {"bootstrap.servers": self.broker.bootstrap, "group.id": "demo.nobody"}, logger=LOG
        )
        deadline = time.monotonic() + _PATIENCE
        try:
            while True:
                try:
                    consumer.committed([TopicPartition("foo", 0)], timeout=_PATIENCE)
                    return
                except KafkaException as cause:
                    # A coordinator that is still loading sends its askers away at first.
                    if time.monotonic() > deadline:
                        said = f"The local broker has no coordinator: {cause}."
                        raise SourceError(said) from cause
                time.sleep(0.2)
        finally:
            consumer.close()

    def topics(self, **partitions: int) -> None:
        """Create topics; ``_`` in a name stands for ``-``."""
        new = [
            _kafka().NewTopic(name.replace("_", "-"), count) for name, count in partitions.items()
        ]
        _all(self.cluster.admin.create_topics(new, request_timeout=30))

    def grow(self, topic: str, partitions: int) -> None:
        """Add partitions, up to this many."""
        _all(self.cluster.admin.create_partitions([_kafka().NewPartitions(topic, partitions)]))

    def drop(self, topic: str) -> None:
        """Delete a topic, and wait until its offsets have gone from the groups as well."""
        _all(self.cluster.admin.delete_topics([topic]))

    def delete_group(self, group: str) -> None:
        """Delete an empty group."""
        _all(self.cluster.admin.delete_consumer_groups([group]))

    def configure_group(self, group: str, **settings: str) -> None:
        """Settings of one group; ``_`` in a name stands for ``.``."""
        kafka = _kafka()
        add = kafka.AlterConfigOpType.SET
        entries = [
            kafka.ConfigEntry(name.replace("_", "."), value, incremental_operation=add)
            for name, value in settings.items()
        ]
        resource = kafka.ConfigResource(
            kafka.ResourceType.GROUP, group, incremental_configs=entries
        )
        _all(self.cluster.admin.incremental_alter_configs([resource]))

    def join(self, group: str, topics: Sequence[str] = (), **how: Any) -> Member:
        """Start a consumer; see ``Member`` for how."""
        member = Member(self.broker.bootstrap, group, topics, **how)
        with self._lock:
            self._members.append(member)
            late = self._closed
        if late:
            member.kill()
        return member

    def describe(self, group: str) -> LiveGroup | None:
        """The group as the broker sees it now; None if it doesn't say (yet)."""
        with contextlib.suppress(SourceError):  # an answer that is late is asked for again
            return self.cluster.describe([group])[0].get(group)
        return None

    def settled(self, group: str, *shape: int, kind: str | None = None) -> LiveGroup:
        """Wait until the group rests, with so many partitions for its members (largest first).

        At rest, a consumer-protocol group has every target reached; ``kind`` is the type of group
        that must have come of it.
        """

        def rests(found: LiveGroup) -> bool:
            counts = sorted((len(member.assigned) for member in found.members), reverse=True)
            return (
                found.state == ("Stable" if shape else "Empty")
                and counts == list(shape)
                and kind in (None, found.type)
                and all(one.target is None or one.target == one.assigned for one in found.members)
            )

        return self.until(group, rests, f"come to rest as {list(shape)}")

    def until(self, group: str, holds: Callable[[LiveGroup], bool], what: str) -> LiveGroup:
        """Ask the broker until something holds of the group."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            found = self.describe(group)
            if found is not None and holds(found):
                return found
            if self._closed:
                raise SourceError(f"The wait for the group {group} was broken off.")
            if time.monotonic() > deadline:
                raise SourceError(
                    f"The group {group} did not {what} in {_PATIENCE:.0f} s: {_said(found)}."
                )
            time.sleep(_LOOK)

    def quiet(self, rest: float = 1.5) -> None:
        """Wait until nothing has been written to ``__consumer_offsets`` for a while."""
        deadline = time.monotonic() + _PATIENCE
        ends = self.cluster.ends()
        since = time.monotonic()
        while time.monotonic() - since < rest:
            if time.monotonic() > deadline:
                raise SourceError("The consumer groups do not come to rest.")
            time.sleep(_LOOK)
            now = self.cluster.ends()
            if now != ends:
                ends, since = now, time.monotonic()

    def close(self) -> None:
        """Kill every consumer that still runs."""
        with self._lock:
            self._closed = True
            members = list(self._members)
        for member in members:
            member.kill()


def _said(found: LiveGroup | None) -> str:
    if found is None:
        return "the broker does not describe it"
    counts = [len(member.assigned) for member in found.members]
    return f"it is {found.type}, {found.state}, its members have {counts} partitions"


def _kafka() -> Any:
    """The admin module; untyped, because its stubs leave names out."""
    from confluent_kafka import admin

    return admin


def _all(answers: dict[Any, Any]) -> None:
    from confluent_kafka import KafkaException

    for name, answer in answers.items():
        try:
            answer.result(60)
        except KafkaException as cause:
            raise SourceError(f"The broker refuses {name}: {cause.args[0].str()}.") from cause
