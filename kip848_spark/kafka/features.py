"""The features of the brokers: the release line of each, and the finalized ``group.version``.

librdkafka has no call for them. A broker answers an ApiVersions request (KIP-511, KIP-584) to
anybody, before a client has authenticated itself, so one request over a plain or TLS socket is
enough. What does not answer is not known.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kip848_spark.kafka.broker_connection import CLIENT, BrokerConnection, FieldReader, compact
from kip848_spark.version import __version__

_API_VERSIONS, _VERSION = 18, 3
_GROUP, _METADATA = "group.version", "metadata.version"
_SUPPORTED, _FINALIZED = 0, 2
"""Tags of the answer."""


@dataclass(frozen=True)
class BrokerFeatures:
    """The features of one broker. ``metadata_version`` is the newest level of ``metadata.version``
    that the broker supports, which tells its release line; ``group_version`` is the level of
    ``group.version`` that the cluster has finalized, 0 if it has none."""

    metadata_version: int
    group_version: int


def broker_features(
    host: str, port: int, config: Mapping[str, Any], timeout: float = 5.0
) -> BrokerFeatures | None:
    """Asks one broker; None if it does not answer, or not as a broker of Kafka 3.3 or later does.
    ``config`` are settings of librdkafka; ``timeout`` is in seconds."""
    try:
        with BrokerConnection(host, port, config, timeout) as connection:
            return _features(_answer(connection))
    except (OSError, ValueError, LookupError, struct.error):
        return None


def supported_versions(connection: BrokerConnection) -> dict[int, tuple[int, int]]:
    """The oldest and the newest version of each request that the broker takes, by its key. Raises
    OSError, ValueError, LookupError or struct.error."""
    return _versions(_answer(connection))


def _answer(connection: BrokerConnection) -> FieldReader:
    body = compact(CLIENT.decode()) + compact(__version__) + b"\0"
    return connection.ask(_API_VERSIONS, _VERSION, body, tagged=False)


def _versions(fields: FieldReader) -> dict[int, tuple[int, int]]:
    if fields.number("h"):
        raise ValueError("the broker refuses the request")
    found = {}
    for _ in range(fields.length()):
        api = fields.number("h")
        found[api] = fields.number("h"), fields.number("h")
        fields.tags()
    return found


def _features(fields: FieldReader) -> BrokerFeatures:
    _versions(fields)
    fields.number("i")  # throttle time
    tags = fields.tags()
    supported = dict(_levels(tags.get(_SUPPORTED, b"\x01"), newest_first=False))
    finalized = dict(_levels(tags.get(_FINALIZED, b"\x01"), newest_first=True))
    return BrokerFeatures(supported[_METADATA], finalized.get(_GROUP, 0))


def _levels(array: bytes, *, newest_first: bool) -> Iterable[tuple[str, int]]:
    """Features and their newest levels."""
    fields = FieldReader(array)
    for _ in range(fields.length()):
        name = fields.text()
        levels = fields.number("h"), fields.number("h")
        fields.tags()
        yield name, levels[0] if newest_first else levels[1]
