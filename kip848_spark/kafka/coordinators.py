"""Asks the coordinators of groups, for many groups at once, over connections of our own.

librdkafka sends a request for each group, and librdkafka 2.16 ends its process if a broker is not,
or no longer, the coordinator of a group whose offsets it asks for. FindCoordinator: KIP-699.
"""

from __future__ import annotations

import struct
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from kip848_spark.kafka.admin import Cluster, describe_error
from kip848_spark.kafka.answers import Layout, read_value
from kip848_spark.kafka.broker_connection import BrokerConnection, compact_array
from kip848_spark.kafka.features import supported_versions
from kip848_spark.kafka.snapshot import NO_COORDINATOR, TOPIC_DENIED, UNREADABLE_ANSWER

T = TypeVar("T")

NONE, NOT_FOUND = 0, 69
"""Error codes of Kafka: no error, and no such group."""
TRANSIENT = (14, 15, 16)
"""The errors of a group whose coordinator is loading, not available, or another broker."""
_TOPIC_DENIED, _GROUP_DENIED = 29, 30
_NO_ANSWERS = (ValueError, LookupError, struct.error)
CONNECTION_FAILURES = (OSError, *_NO_ANSWERS)
"""What a connection to a broker may raise."""

Address = tuple[str, int]
"""The host and the port of a broker."""
RequestVersions = Mapping[int, tuple[int, int]]
"""The oldest and the newest version of each request that a broker takes, by its key."""

_FIND_COORDINATOR, _VERSION = 10, 4
_GROUP_KEY = b"\0"
"""The type of the keys of FindCoordinator: groups."""
_GROUPS_A_REQUEST = 100
_BROKERS_AT_ONCE = 32
_PAUSE = 0.5
"""Seconds before groups without a coordinator are asked for again."""
_STEPS = 3
"""A broker that does not answer is given up after this part of the timeout of a cluster, since its
groups may have another coordinator by then."""
_MOST_TIMEOUTS = 10
"""All groups together are asked for in at most so many timeouts."""
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
            with _connect(cluster, host, port) as connection:
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
        asked = set(names)
        for row in answer["coordinators"]:
            if row["key"] not in asked:
                continue
            if row["error"] == NONE:
                found.groups.setdefault((row["host"], row["port"]), []).append(row["key"])
            else:
                found.errors[row["key"]] = row
    return found


@dataclass
class GroupAnswers(Generic[T]):
    """The ``answers`` by group, the groups that are ``absent``, and the reasons of those that were
    ``refused``. The brokers could not be asked for the groups ``unasked`` in this way: they do not
    know the request, or the client can't log in here (`BrokerConnection`); in the first case, a
    broker has ``answered``."""

    answers: dict[str, T] = field(default_factory=dict)
    absent: set[str] = field(default_factory=set)
    refused: dict[str, str] = field(default_factory=dict)
    unasked: set[str] = field(default_factory=set)
    answered: bool = False

    def lacks(self, name: str) -> bool:
        """Whether the group has to be asked for again."""
        return not any(
            name in some for some in (self.answers, self.absent, self.refused, self.unasked)
        )

    def add(self, names: Sequence[str], found: GroupAnswers[T]) -> None:
        """Adds what an answer says of the groups ``names``. Others were not asked for."""
        asked = set(names)
        self.answers.update({n: one for n, one in found.answers.items() if n in asked})
        self.refused.update({n: why for n, why in found.refused.items() if n in asked})
        self.absent.update(found.absent & asked)
        self.unasked.update(found.unasked & asked)


AskBroker = Callable[[BrokerConnection, RequestVersions, list[str]], GroupAnswers[T]]
"""Asks a coordinator, which has these versions of requests, for some groups. What it leaves out is
asked for again. It may raise `CONNECTION_FAILURES`."""


def ask_coordinators(cluster: Cluster, ids: Sequence[str], ask: AskBroker[T]) -> GroupAnswers[T]:
    """Asks the coordinators of the groups ``ids``, and again if they move. Groups whose
    coordinators do not answer within the timeout of ``cluster`` are refused: `NO_COORDINATOR`. If
    an answer can't be read, its groups are asked for in smaller requests, and one whose own answer
    can't be read is refused. Raises SourceError if the cluster is gone."""
    found: GroupAnswers[T] = GroupAnswers()
    waiting, size = list(ids), _GROUPS_A_REQUEST
    last_answer = time.monotonic()
    end = last_answer + _MOST_TIMEOUTS * cluster.timeout
    while waiting:
        coordinators = find_coordinators(cluster, waiting)
        found.answered |= coordinators.answered
        if not coordinators.supported:
            found.unasked.update(waiting)
            break
        for name, row in coordinators.errors.items():
            if row["error"] not in TRANSIENT:
                found.refused[name] = refusal(cluster, name, row)
        with ThreadPoolExecutor(_BROKERS_AT_ONCE) as pool:
            asked = [
                pool.submit(_ask_one, cluster, address, list(in_requests(names, size)), ask, end)
                for address, names in coordinators.groups.items()
            ]
        unreadable: list[str] = []
        for one in asked:
            answers, bad = one.result()
            found.add(waiting, answers)
            unreadable += bad
        if size == 1:
            found.refused |= dict.fromkeys(unreadable, UNREADABLE_ANSWER)
        left = list(filter(found.lacks, waiting))
        now = time.monotonic()
        if len(left) < len(waiting):
            last_answer = now
        waiting = left
        if now > min(last_answer + cluster.timeout, end):
            found.refused |= dict.fromkeys(waiting, NO_COORDINATOR)
            break
        if unreadable:
            size = max(1, size // 10)
        elif waiting:
            time.sleep(_PAUSE)
    return found


def _ask_one(
    cluster: Cluster,
    address: Address,
    requests: Sequence[list[str]],
    ask: AskBroker[T],
    end: float,
) -> tuple[GroupAnswers[T], list[str]]:
    """The answers of one coordinator, and the groups whose answer can't be read. Returns early if
    the connection fails, and at the time ``end``."""
    found: GroupAnswers[T] = GroupAnswers()
    unreadable: list[str] = []
    left = deque(requests)
    while left and time.monotonic() < end:
        try:
            with _connect(cluster, *address) as connection:
                connection.authenticate()
                known = supported_versions(connection)
                while left and time.monotonic() < end:
                    names = left[0]
                    try:
                        found.add(names, ask(connection, known, names))
                    except _NO_ANSWERS:
                        unreadable += names
                        break  # what else comes over this connection is not known
                    finally:
                        left.popleft()
        except CONNECTION_FAILURES:
            break
    return found, unreadable


def _connect(cluster: Cluster, host: str, port: int) -> BrokerConnection:
    return BrokerConnection(host, port, cluster.config, cluster.timeout / _STEPS)


def refusal(cluster: Cluster, group_id: str, row: Mapping[str, Any]) -> str:
    """Why a broker refuses a group: ``row`` has the ``error``, and may have a ``message``."""
    if row["error"] == _GROUP_DENIED:
        return cluster.client.denied("DESCRIBE", "group", group_id).message
    if row["error"] == _TOPIC_DENIED:
        return TOPIC_DENIED
    return row.get("message") or describe_error(row["error"])


def in_requests(names: Sequence[str], size: int = _GROUPS_A_REQUEST) -> Iterator[list[str]]:
    """``names`` in parts of ``size``, one for each request."""
    for at in range(0, len(names), size):
        yield list(names[at : at + size])
