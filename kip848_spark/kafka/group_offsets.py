"""The committed offsets of groups: OffsetFetch, for many groups at once (KIP-709)."""

from __future__ import annotations

from collections.abc import Sequence

from kip848_spark.kafka.admin import Cluster
from kip848_spark.kafka.broker_connection import (
    BrokerConnection,
    FieldReader,
    compact,
    unsigned_varint,
)
from kip848_spark.kafka.coordinators import (
    NONE,
    NOT_FOUND,
    TRANSIENT,
    GroupAnswers,
    RequestVersions,
    ask_coordinators,
    refusal,
)
from kip848_spark.kafka.snapshot import LiveOffset

Offsets = tuple[LiveOffset, ...]

_OFFSET_FETCH, _VERSION = 9, 8


def committed_offsets(cluster: Cluster, ids: Sequence[str]) -> GroupAnswers[Offsets]:
    """The committed offsets of the groups ``ids``, sorted by topic and partition; none for a group
    that does not exist. Raises SourceError if the cluster is gone."""

    def ask(
        connection: BrokerConnection, known: RequestVersions, names: list[str]
    ) -> GroupAnswers[Offsets]:
        oldest, newest = known.get(_OFFSET_FETCH, (0, -1))
        if not oldest <= _VERSION <= newest:
            return GroupAnswers(unasked=set(names))
        return _read(cluster, connection.ask(_OFFSET_FETCH, _VERSION, _request(names)))

    return ask_coordinators(cluster, ids, ask)


def _request(names: Sequence[str]) -> bytes:
    """All topics (a null array) of each group, without waiting for open transactions."""
    groups = b"".join(compact(name) + b"\0\0" for name in names)
    return unsigned_varint(len(names) + 1) + groups + b"\0\0"


def _read(cluster: Cluster, fields: FieldReader) -> GroupAnswers[Offsets]:
    found: GroupAnswers[Offsets] = GroupAnswers()
    fields.number("i")  # throttle time
    for _ in range(fields.length()):
        name, offsets, error = fields.text(), _offsets(fields), fields.number("h")
        fields.tags()
        if error in (NONE, NOT_FOUND):
            found.answers[name] = tuple(sorted(offsets, key=lambda one: (one.topic, one.partition)))
        elif error not in TRANSIENT:
            found.refused[name] = refusal(cluster, name, {"error": error})
    return found


def _offsets(fields: FieldReader) -> list[LiveOffset]:
    found = []
    for _ in range(fields.length()):
        topic = fields.text()
        for _ in range(fields.length()):
            partition, offset, epoch = fields.number("i"), fields.number("q"), fields.number("i")
            metadata = _text(fields.octets())
            error = fields.number("h")
            fields.tags()
            if error == NONE:  # brokers take negative offsets too, and list what was committed only
                known = None if epoch < 0 else epoch
                found.append(LiveOffset(topic, partition, offset, known, metadata, exact=True))
        fields.tags()
    return found


def _text(octets: bytes) -> str | None:
    try:
        return octets.decode()
    except UnicodeDecodeError:
        return None
