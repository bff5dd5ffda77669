"""Asks the coordinators of groups, for many groups at once, over connections of our own.

librdkafka sends a request for each group, and librdkafka 2.16 ends its process if a broker is not,
or no longer, the coordinator of a group whose offsets it asks for. FindCoordinator: KIP-699.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from kip848_spark.kafka.admin import Cluster, describe_error
from kip848_spark.kafka.answers import Layout, read_value
from kip848_spark.kafka.broker_connection import BrokerConnection, compact_array
from kip848_spark.kafka.features import supported_versions
from kip848_spark.kafka.snapshot import NO_COORDINATOR

T = TypeVar("T")

NONE, NOT_FOUND = 0, 69
"""Error codes of Kafka: no error, and no such group."""
TRANSIENT = (14, 15, 16)
"""The errors of a group whose coordinator is loading, not available, or another broker."""
_TOPIC_DENIED, _GROUP_DENIED = 29, 30
CONNECTION_FAILURES = (OSError, ValueError, LookupError, struct.error)
"""What a connection to a broker may raise."""

Address = tuple[str, int]
"""The host and the port of a broker."""

_FIND_COORDINATOR, _VERSION = 10, 4
_GROUP_KEY = b"\0"
"""The type of the keys of FindCoordinator: groups."""
_GROUPS_A_REQUEST = 100
_BROKERS_AT_ONCE = 32
_PAUSE = 0.5
"""Seconds before groups without a coordinator are asked for again."""
_COORDINATORS: dict[str, Layout] = {
    "throttle_ms": "int32",
    "coordinators": [
        {
            "key": "string",
            "node": "int32",
            "host": "string",
            "port": "int32",
            "error": "int16",
            "message": "string",
        }
    ],
}


@dataclass
class Coordinators:
    """The ``groups`` of each coordinator, and for other groups the ``errors``: ``error`` (a code of
    Kafka) and ``message``. ``answered``: a broker took the connection; ``supported``: it also has
    the request."""

    groups: dict[Address, list[str]] = field(default_factory=dict)
    errors: dict[str, dict[str, Any]] = field(default_factory=dict)
    answered: bool = False
    supported: bool = False


def find_coordinators(cluster: Cluster, ids: Sequence[str]) -> Coordinators:
    """Asks one broker after the other for the coordinators of the groups ``ids``, until one
    answers. Any broker knows all coordinators. Raises SourceError if the cluster is gone."""
    for host, port in cluster.brokers():
        try:
            with BrokerConnection(host, port, cluster.config, cluster.timeout) as connection:
                connection.authenticate()
                return _ask(connection, ids)
        except CONNECTION_FAILURES:
            continue
    return Coordinators()


def _ask(connection: BrokerConnection, ids: Sequence[str]) -> Coordinators:
    found = Coordinators(answered=True)
    oldest, newest = supported_versions(connection).get(_FIND_COORDINATOR, (0, 0))
    if not oldest <= _VERSION <= newest:
        return found
    found.supported = True
    for names in in_requests(ids):
        body = _GROUP_KEY + compact_array(names) + b"\0"
        answer = read_value(connection.ask(_FIND_COORDINATOR, _VERSION, body), _COORDINATORS)
        for row in answer["coordinators"]:
            if row["error"] == NONE:
                found.groups.setdefault((row["host"], row["port"]), []).append(row["key"])
            else:
                found.errors[row["key"]] = row
    return found


@dataclass
class GroupAnswers(Generic[T]):
    """The ``answers`` by group, the groups that are ``absent``, and the reasons of those that were
    ``refused``. The brokers could not be asked for the groups ``unasked`` in this way: they do not
    know the request, or the client can't log in here (`BrokerConnection`)."""

    answers: dict[str, T] = field(default_factory=dict)
    absent: set[str] = field(default_factory=set)
    refused: dict[str, str] = field(default_factory=dict)
    unasked: set[str] = field(default_factory=set)

    def lacks(self, name: str) -> bool:
        """Whether the group has to be asked for again."""
        return not any(
            name in some for some in (self.answers, self.absent, self.refused, self.unasked)
        )


AskBroker = Callable[[BrokerConnection, Sequence[str], GroupAnswers[T]], None]
"""Asks one coordinator for some groups, and adds its answers. What it leaves out is asked for
again. It may raise `CONNECTION_FAILURES`."""


def ask_coordinators(cluster: Cluster, ids: Sequence[str], ask: AskBroker[T]) -> GroupAnswers[T]:
    """Asks the coordinators of the groups ``ids``. A group whose coordinator does not answer within
    the timeout of ``cluster`` is refused: `NO_COORDINATOR`. Raises SourceError if the cluster is
    gone."""
    found: GroupAnswers[T] = GroupAnswers()
    waiting, deadline = list(ids), time.monotonic() + cluster.timeout
    while waiting:
        coordinators = find_coordinators(cluster, waiting)
        if not coordinators.supported:
            found.unasked.update(waiting)
            break
        for name, row in coordinators.errors.items():
            if row["error"] not in TRANSIENT:
                found.refused[name] = refusal(cluster, name, row)
        with ThreadPoolExecutor(_BROKERS_AT_ONCE) as pool:
            asked = [
                pool.submit(_ask_one, cluster, address, names, ask, found)
                for address, names in coordinators.groups.items()
            ]
        for one in asked:
            one.result()
        waiting = list(filter(found.lacks, waiting))
        if waiting and time.monotonic() > deadline:
            found.refused |= dict.fromkeys(waiting, NO_COORDINATOR)
            break
        if waiting:
            time.sleep(_PAUSE)
    return found


def _ask_one(
    cluster: Cluster,
    address: Address,
    names: Sequence[str],
    ask: AskBroker[T],
    found: GroupAnswers[T],
) -> None:
    try:
        with BrokerConnection(*address, cluster.config, cluster.timeout) as connection:
            connection.authenticate()
            ask(connection, names, found)
    except CONNECTION_FAILURES:
        return


def refusal(cluster: Cluster, group_id: str, row: Mapping[str, Any]) -> str:
    """Why a broker refuses a group: ``row`` has the ``error``, and may have a ``message``."""
    if row["error"] == _GROUP_DENIED:
        return cluster.client.denied("DESCRIBE", "group", group_id).message
    if row["error"] == _TOPIC_DENIED:
        return "the client lacks the ACL DESCRIBE on a topic of the group"
    return row.get("message") or describe_error(row["error"])


def in_requests(names: Sequence[str]) -> Iterator[list[str]]:
    """``names`` in parts, one for each request."""
    for at in range(0, len(names), _GROUPS_A_REQUEST):
        yield list(names[at : at + _GROUPS_A_REQUEST])
