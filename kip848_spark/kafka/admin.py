"""Reads the groups, topics and offsets of a running cluster through Kafka's admin protocol.

Every request has a timeout, and every failure is a ``SourceError`` of one sentence; settings that
librdkafka refuses are a ``UsageError``. librdkafka logs to the logger ``kip848_spark.librdkafka``,
never to the terminal.
"""

from __future__ import annotations

import logging
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from kip848_spark.errors import SourceError, UsageError
from kip848_spark.kafka.acls import KafkaClient
from kip848_spark.kafka.features import BrokerFeatures, broker_features
from kip848_spark.kafka.snapshot import (
    LiveEnds,
    LiveGroup,
    LiveOffset,
    LiveTopic,
    group_of,
    kafka_id,
    offsets_of,
    racks_of,
)

if TYPE_CHECKING:
    from confluent_kafka import KafkaError
    from confluent_kafka.admin import AdminClient

P = ParamSpec("P")
T = TypeVar("T")

OFFSETS_TOPIC = "__consumer_offsets"
_GROUPS_A_REQUEST = 100
_TOPICS_A_REQUEST = 500
_REQUESTS_AT_ONCE = 32
_PATIENCE = 4.0  # seconds without a broker after which the first request fails
_PAUSE = 0.2  # seconds between two clients

LOG = logging.getLogger("kip848_spark.librdkafka")
LOG.addHandler(logging.NullHandler())


def admin_client(
    bootstrap: str,
    config: Mapping[str, Any] | None = None,
    on_error: Callable[[KafkaError], None] | None = None,
) -> AdminClient:
    """An admin client that prints nothing. It connects with its first request. Raises UsageError
    if librdkafka refuses a setting, or can't read a file that one names."""
    from confluent_kafka.admin import AdminClient

    settings: dict[str, Any] = {
        "client.id": "kip848-spark",
        "reconnect.backoff.max.ms": 1000,
        **(config or {}),
        "bootstrap.servers": bootstrap,
    }
    if on_error is not None:
        settings["error_cb"] = on_error
    try:
        return AdminClient(settings, logger=LOG)
    except Exception as cause:
        raise UsageError(
            f"The Kafka client settings are not usable: {_reason(cause)}.",
            hint="Check --kafka-option and the section [kafka] of the settings file.",
        ) from cause


class _NoAnswer(SourceError):
    """The broker that librdkafka has chosen does not answer, or not for this partition any more."""


def _with_new_clients(
    method: Callable[Concatenate[Cluster, P], T],
) -> Callable[Concatenate[Cluster, P], T]:
    """``method``, repeated with a new client while the broker that was asked does not answer, until
    the timeout of one request has passed. librdkafka goes on asking a broker that has died, and a
    new client may choose it too until the cluster has noticed the death."""

    @wraps(method)
    def asked(self: Cluster, /, *args: P.args, **options: P.kwargs) -> T:
        last = time.monotonic() + self.timeout
        while True:
            begun = time.monotonic()
            try:
                return method(self, *args, **options)
            except _NoAnswer:
                if begun >= last:
                    raise
            time.sleep(_PAUSE)
            self.admin = admin_client(self.bootstrap, self.config, self._note)
            self._trouble = None
            self._first_contact()

    return asked


class Cluster:
    """A connection to a cluster. The constructor returns when the cluster has answered once."""

    def __init__(
        self, bootstrap: str, config: Mapping[str, Any] | None = None, timeout: float = 30.0
    ) -> None:
        self.bootstrap = bootstrap
        self.client = KafkaClient.of(bootstrap, config or {})
        self.timeout = timeout
        self.config = dict(config or {})
        self._trouble: KafkaError | None = None
        self.admin = admin_client(bootstrap, config, self._note)
        metadata = self._first_contact()
        self.cluster_id: str = metadata.cluster_id
        self._names: list[str] = sorted(metadata.topics)

    def refresh(self) -> None:
        """Asks for the names of the topics again. Raises SourceError if no broker answers."""
        self._names = sorted(self._first_contact().topics)

    def _note(self, error: KafkaError) -> None:
        self._trouble = error

    def _first_contact(self) -> Any:
        from confluent_kafka import KafkaException

        started = time.monotonic()
        while True:
            try:
                return self.admin.list_topics(timeout=0.5)
            except KafkaException as cause:
                self.admin.poll(0)
                waited = time.monotonic() - started
                known = self._trouble is not None and waited > _PATIENCE
                if known or waited > self.timeout or _is_auth(self._trouble):
                    raise self._fault(cause) from cause

    def _fault(self, cause: BaseException) -> SourceError:
        """The error for ``cause``, with the client's last connection error if there is one."""
        from confluent_kafka import KafkaException

        self.admin.poll(0)
        if _is_auth(self._trouble):
            return self.client.refused(_reason(self._trouble))
        if isinstance(cause, KafkaException) and cause.args[0].name() == _NOT_ON_CLUSTER:
            return self.client.denied("DESCRIBE", "cluster", "")
        if not isinstance(cause, KafkaException) or cause.args[0].name() in _UNREACHABLE:
            reason = f" ({_reason(self._trouble)})" if self._trouble is not None else ""
            return _NoAnswer(
                f"No Kafka broker answers at {self.bootstrap}{reason}.",
                hint="Check the host and port, and that security.protocol fits the listener.",
            )
        kind = _NoAnswer if cause.args[0].name() in _MOVED else SourceError
        return kind(f"The Kafka cluster at {self.bootstrap} reports: {_reason(cause)}.")

    def _wait(self, answer: Future[T]) -> T:
        from confluent_kafka import KafkaException

        try:
            return answer.result(self.timeout + 5)
        except FutureTimeout as cause:
            raise self._fault(cause) from cause
        except KafkaException as cause:
            raise self._fault(cause) from cause

    def _wait_each(
        self, asked: Iterable[Callable[[], Mapping[str, Future[T]]]]
    ) -> tuple[dict[str, T], dict[str, str]]:
        """Sends many requests, a bounded number at a time. Returns the answers, and the reasons of
        those that were refused."""
        from confluent_kafka import KafkaException

        answers: dict[str, T] = {}
        refused: dict[str, str] = {}
        under_way: deque[Mapping[str, Future[T]]] = deque()

        def gather() -> None:
            for name, answer in under_way.popleft().items():
                try:
                    answers[name] = answer.result(self.timeout + 5)
                except FutureTimeout as cause:
                    raise self._fault(cause) from cause
                except KafkaException as cause:
                    if cause.args[0].name() in _UNREACHABLE:
                        raise self._fault(cause) from cause
                    if (kind := _NOT_ON.get(cause.args[0].name())) is not None:
                        refused[name] = self.client.denied("DESCRIBE", kind, name).message
                    elif cause.args[0].name() not in _ABSENT:
                        refused[name] = _reason(cause)

        for ask in asked:
            if len(under_way) >= _REQUESTS_AT_ONCE:
                gather()
            under_way.append(ask())
        while under_way:
            gather()
        return answers, refused

    def group_ids(self) -> list[str]:
        """The ids of all groups that the client may see."""
        listed = self._wait(self.admin.list_consumer_groups(request_timeout=self.timeout))
        if not listed.valid and listed.errors:
            raise self._fault(listed.errors[0])
        return sorted(group.group_id for group in listed.valid)

    def describe(self, ids: Sequence[str]) -> tuple[dict[str, LiveGroup], dict[str, str]]:
        """Groups with their members, and the reasons of those that were refused. A group that
        does not exist is in neither. `cluster.ask_in_child` also survives groups whose
        assignments the client library cannot read."""
        answers, refused = self._wait_each(
            lambda some=ids[i : i + _GROUPS_A_REQUEST]: self.admin.describe_consumer_groups(  # type: ignore[misc]
                list(some), request_timeout=self.timeout
            )
            for i in range(0, len(ids), _GROUPS_A_REQUEST)
        )
        groups = {name: group_of(answer) for name, answer in sorted(answers.items())}
        return {name: group for name, group in groups.items() if group.state != _DEAD}, refused

    def committed(
        self, ids: Sequence[str]
    ) -> tuple[dict[str, tuple[LiveOffset, ...]], dict[str, str]]:
        """The committed offsets of groups, and the reasons of those that were refused. It may end
        the process (`coordinators`); `cluster.ask_in_child` survives that."""
        from confluent_kafka import ConsumerGroupTopicPartitions

        answers, refused = self._wait_each(
            lambda name=name: self.admin.list_consumer_group_offsets(  # type: ignore[misc]
                [ConsumerGroupTopicPartitions(name)], request_timeout=self.timeout
            )
            for name in ids
        )
        return {name: offsets_of(answer) for name, answer in sorted(answers.items())}, refused

    @_with_new_clients
    def topics(self, names: Sequence[str] | None = None) -> dict[str, LiveTopic]:
        """Topics by name with their ids: all of them, or those named."""
        from confluent_kafka import TopicCollection

        wanted = self._names if names is None else list(names)
        answers, refused = self._wait_each(
            lambda some=wanted[i : i + _TOPICS_A_REQUEST]: self.admin.describe_topics(  # type: ignore[misc]
                TopicCollection(some), request_timeout=self.timeout
            )
            for i in range(0, len(wanted), _TOPICS_A_REQUEST)
        )
        if names is not None and refused:
            name, reason = next(iter(refused.items()))
            denied = self.client.denied("DESCRIBE", "topic", name)
            if reason == denied.message:
                raise denied
            raise SourceError(
                f"The topic {name} can't be described at {self.bootstrap}: {reason}.",
                hint="Check its name, and that the client has DESCRIBE on it.",
            )
        return {
            name: LiveTopic(
                name,
                kafka_id(described.topic_id),
                len(described.partitions),
                bool(described.is_internal),
                racks_of(described),
            )
            for name, described in sorted(answers.items())
        }

    def ends(self, topic: str = OFFSETS_TOPIC) -> dict[int, LiveEnds]:
        """The first, end and last stable offset of each of a topic's partitions."""
        return self._ends(topic, self.topics([topic])[topic].partitions)

    @_with_new_clients
    def _ends(self, topic: str, count: int) -> dict[int, LiveEnds]:
        from confluent_kafka import IsolationLevel, TopicPartition, admin

        kafka: Any = admin  # its type stubs leave names out
        found = []
        for spec, isolation in (
            (kafka.OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED),
            # The stable one last: it is below the end only if a transaction is open, and not
            # because something was written in between.
            (kafka.OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED),
            (kafka.OffsetSpec.latest(), IsolationLevel.READ_COMMITTED),
        ):
            answers = self.admin.list_offsets(
                {TopicPartition(topic, number): spec for number in range(count)},
                isolation_level=isolation,
                request_timeout=self.timeout,
            )
            found.append({at.partition: self._wait(one).offset for at, one in answers.items()})
        first, end, stable = found
        return {n: LiveEnds(first[n], max(end[n], stable[n]), stable[n]) for n in range(count)}

    @_with_new_clients
    def broker_settings(self, names: Sequence[str]) -> dict[str, str]:
        """The values of these broker settings; those that a broker does not have, or in which
        brokers differ, are left out. Needs DESCRIBE_CONFIGS on the cluster."""
        from confluent_kafka import admin

        kafka: Any = admin  # its type stubs leave names out
        brokers = self._wait_for_metadata().brokers
        kind = kafka.ResourceType.BROKER
        asked = [  # librdkafka refuses a request about several brokers
            self.admin.describe_configs(
                [kafka.ConfigResource(kind, str(number))], request_timeout=self.timeout
            )
            for number in sorted(brokers)
        ]
        found = [self._wait(answer) for answers in asked for answer in answers.values()]
        values = {name: {one[name].value for one in found if name in one} for name in names}
        return {
            name: some.pop()
            for name, some in values.items()
            if len(some) == 1 and None not in some and all(name in one for one in found)
        }

    def features(self) -> list[BrokerFeatures]:
        """The features of all brokers; nothing if one of them does not answer. Needs no
        permission."""
        with ThreadPoolExecutor(_REQUESTS_AT_ONCE) as pool:
            found = pool.map(lambda at: broker_features(at[0], at[1], self.config), self.brokers())
            answers = list(found)
        known = [one for one in answers if one is not None]
        return known if len(known) == len(answers) else []

    def brokers(self) -> list[tuple[str, int]]:
        """The host and port of each broker. Raises SourceError if none answers."""
        return [(one.host, one.port) for one in self._wait_for_metadata().brokers.values()]

    def _wait_for_metadata(self) -> Any:
        from confluent_kafka import KafkaException

        try:
            return self.admin.list_topics(timeout=self.timeout)
        except KafkaException as cause:
            raise self._fault(cause) from cause


_UNREACHABLE = {"_TIMED_OUT", "_TRANSPORT", "_ALL_BROKERS_DOWN", "_RESOLVE", "_TIMED_OUT_QUEUE"}
_MOVED = {
    *("NOT_LEADER_FOR_PARTITION", "LEADER_NOT_AVAILABLE", "OFFSET_NOT_AVAILABLE"),
    *("FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH"),
}
"""Errors while another broker takes over a partition."""
_NOT_ON_CLUSTER = "CLUSTER_AUTHORIZATION_FAILED"
_NOT_ON = {"TOPIC_AUTHORIZATION_FAILED": "topic", "GROUP_AUTHORIZATION_FAILED": "group"}
"""The resource on which the client lacks DESCRIBE, by the error."""
_ABSENT = {"GROUP_ID_NOT_FOUND"}
_DEAD = "Dead"
"""The state that a broker before Kafka 4.0 reports for a group that does not exist."""
_REFUSALS = {"_AUTHENTICATION", "_SSL", "SASL_AUTHENTICATION_FAILED"}


def _is_auth(trouble: KafkaError | None) -> bool:
    return trouble is not None and trouble.name() in _REFUSALS


def describe_error(code: int) -> str:
    """The words for an error code of Kafka."""
    from confluent_kafka import KafkaError

    return _reason(KafkaError(code))


def _reason(cause: object) -> str:
    """The message of an error without librdkafka's prefix of thread and broker names."""
    error = cause.args[0] if isinstance(cause, Exception) and cause.args else cause
    text = error.str() if hasattr(error, "str") else str(error)
    words = str(text).split("]: ")[-1].removeprefix("Broker: ")
    words = re.sub(r"^\S+/\w+: | \(after \d+ms in state \w+\)", "", words).strip().rstrip(".:")
    name = error.name() if hasattr(error, "name") else type(cause).__name__
    return words if " " in words else f"{words} {name}".strip()
