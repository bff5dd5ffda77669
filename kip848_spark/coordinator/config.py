"""Broker settings by Kafka's names, group settings over them, both checked as a broker does.

KIP-848 "Broker Configurations" and "Group Configurations". A group's own settings come by
``IncrementalAlterConfigs`` with resource type GROUP and live outside the group: they are kept
when it is deleted (KIP, "Rejected Alternatives").
"""

from __future__ import annotations

from collections.abc import Mapping

from kip848_spark.coordinator.faults import GroupError
from kip848_spark.coordinator.releases import Release
from kip848_spark.errors import UsageError

INT_MAX = 2**31 - 1

SESSION = "group.consumer.session.timeout.ms"
HEARTBEAT = "group.consumer.heartbeat.interval.ms"
INTERVAL = "group.consumer.assignment.interval.ms"
ASSIGNORS = "group.consumer.assignors"
MAX_SIZE = "group.consumer.max.size"
MIGRATION = "group.consumer.migration.policy"
REGEX_REFRESH = "group.consumer.regex.refresh.interval.ms"
PROTOCOLS = "group.coordinator.rebalance.protocols"
RETENTION_MINUTES = "offsets.retention.minutes"
RETENTION_CHECK = "offsets.retention.check.interval.ms"
METADATA_BYTES = "offset.metadata.max.bytes"

NUMBERS: dict[str, tuple[int, int]] = {  # name: default, least value a broker takes
    SESSION: (45_000, 1),
    "group.consumer.min.session.timeout.ms": (45_000, 1),
    "group.consumer.max.session.timeout.ms": (60_000, 1),
    HEARTBEAT: (5_000, 1),
    "group.consumer.min.heartbeat.interval.ms": (5_000, 1),
    "group.consumer.max.heartbeat.interval.ms": (15_000, 1),
    MAX_SIZE: (INT_MAX, 1),
    INTERVAL: (1_000, 0),
    "group.consumer.min.assignment.interval.ms": (0, 0),
    "group.consumer.max.assignment.interval.ms": (15_000, 0),
    REGEX_REFRESH: (600_000, 10_000),
    "group.min.session.timeout.ms": (6_000, 1),
    "group.max.session.timeout.ms": (1_800_000, 1),
    "group.initial.rebalance.delay.ms": (3_000, 0),
    "group.max.size": (INT_MAX, 1),
    RETENTION_MINUTES: (10_080, 1),
    RETENTION_CHECK: (600_000, 1),
    METADATA_BYTES: (4_096, 0),
}
_WORDS: dict[str, tuple[str, frozenset[str]]] = {
    ASSIGNORS: ("uniform,range", frozenset({"uniform", "range"})),
    MIGRATION: ("bidirectional", frozenset({"bidirectional", "upgrade", "downgrade", "disabled"})),
    PROTOCOLS: ("classic,consumer", frozenset({"classic", "consumer", "share", "streams"})),
}
_BUILTIN = {
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": "uniform",
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": "range",
}
CLASSIC_JOIN_TIMEOUT_MS = 300_000
"""A new classic member is given this long to complete its first join."""

_GROUP_KEYS = {
    "consumer.session.timeout.ms": SESSION,
    "consumer.heartbeat.interval.ms": HEARTBEAT,
    "consumer.assignment.interval.ms": INTERVAL,
}


class BrokerConfig:
    """The settings of one broker, and on top of them those of each group."""

    def __init__(self, release: Release, settings: Mapping[str, str] | None = None) -> None:
        self.release = release
        self._numbers = {name: default for name, (default, _) in NUMBERS.items()}
        self._words = {name: default for name, (default, _) in _WORDS.items()}
        self._groups: dict[str, dict[str, int]] = {}
        for name, value in (settings or {}).items():
            self._set(name, str(value))
        self._check_ranges()

    def _set(self, name: str, value: str) -> None:
        if name in NUMBERS:
            self._numbers[name] = _whole(name, value, NUMBERS[name][1])
        elif name in _WORDS:
            words = [w.strip() for w in value.split(",") if w.strip()]
            if name == ASSIGNORS:
                words = [_BUILTIN.get(w, w) for w in words]
            elif name == MIGRATION:
                words = [w.lower() for w in words]
            known = _WORDS[name][1]
            if not words or not set(words) <= known or (name == MIGRATION and len(words) > 1):
                raise UsageError(f"{name}={value!r}: one of {', '.join(sorted(known))} is wanted")
            self._words[name] = ",".join(words)
        else:
            raise UsageError(f"no broker setting {name!r} touches the group coordinator")

    def _check_ranges(self) -> None:
        """A broker refuses to start unless least <= value <= most (KIP, Broker Configurations)."""
        triples = [
            (SESSION, "group.consumer.min.session.timeout.ms"),
            (HEARTBEAT, "group.consumer.min.heartbeat.interval.ms"),
        ]
        if self.release.assignment_interval:
            triples.append((INTERVAL, "group.consumer.min.assignment.interval.ms"))
        for name, least in triples:
            most = least.replace(".min.", ".max.")
            low, value, high = (self._numbers[n] for n in (least, name, most))
            if not low <= value <= high:
                raise UsageError(
                    f"{name}={value} lies outside {least}={low} and {most}={high}",
                    "set all three",
                )
        if self._numbers[HEARTBEAT] >= self._numbers[SESSION]:
            raise UsageError(f"{HEARTBEAT} must be less than {SESSION}")
        if (
            self._numbers["group.max.session.timeout.ms"]
            < self._numbers["group.min.session.timeout.ms"]
        ):
            raise UsageError("group.max.session.timeout.ms is below group.min.session.timeout.ms")

    def number(self, name: str) -> int:
        """A broker setting."""
        return self._numbers[name]

    def for_group(self, group_id: str, name: str) -> int:
        """A setting as this group has it: its own, else the broker's."""
        own = self._groups.get(group_id)
        return own.get(name, self._numbers[name]) if own else self._numbers[name]

    def assignment_interval(self, group_id: str) -> int:
        """How long a target stays before the next may be computed (4.3; else no wait)."""
        return self.for_group(group_id, INTERVAL) if self.release.assignment_interval else 0

    @property
    def assignors(self) -> list[str]:
        """The server side assignors offered; the first one is the default."""
        return self._words[ASSIGNORS].split(",")

    @property
    def consumer_protocol(self) -> bool:
        """Whether the new protocol is switched on."""
        return "consumer" in self._words[PROTOCOLS].split(",")

    @property
    def upgrades(self) -> bool:
        """Whether a classic group may become a consumer group while it has members."""
        return self._words[MIGRATION] in ("bidirectional", "upgrade")

    @property
    def downgrades(self) -> bool:
        """Whether a consumer group may become a classic group while it has members."""
        return self._words[MIGRATION] in ("bidirectional", "downgrade")

    @property
    def migration_disabled(self) -> bool:
        """Whether no migration is allowed at all."""
        return self._words[MIGRATION] == "disabled"

    def alter_group(self, group_id: str, changes: Mapping[str, str | None]) -> None:
        """IncrementalAlterConfigs for a GROUP: a value sets, ``None`` deletes."""
        if not group_id:
            raise GroupError("INVALID_REQUEST", "the group id is empty")
        own = dict(self._groups.get(group_id, {}))
        for name, value in changes.items():
            if name not in _GROUP_KEYS or (
                name == "consumer.assignment.interval.ms" and not self.release.assignment_interval
            ):
                raise GroupError("INVALID_CONFIG", f"no group setting is called {name!r}")
            broker_name = _GROUP_KEYS[name]
            if value is None:
                own.pop(broker_name, None)
                continue
            try:
                number = _whole(name, value, NUMBERS[broker_name][1])
            except UsageError as bad:
                raise GroupError("INVALID_CONFIG", bad.message) from None
            stem = broker_name.removeprefix("group.consumer.")
            low = self._numbers[f"group.consumer.min.{stem}"]
            high = self._numbers[f"group.consumer.max.{stem}"]
            if not low <= number <= high:
                raise GroupError("INVALID_CONFIG", f"{name} must lie between {low} and {high}")
            own[broker_name] = number
        session = own.get(SESSION, self._numbers[SESSION])
        if own.get(HEARTBEAT, self._numbers[HEARTBEAT]) >= session:
            raise GroupError("INVALID_CONFIG", "the heartbeat interval must be below the session's")
        self._groups[group_id] = own

    def describe_group(self, group_id: str) -> dict[str, str]:
        """Every setting of a group by its group name, own or inherited."""
        return {
            name: str(self.for_group(group_id, broker_name))
            for name, broker_name in _GROUP_KEYS.items()
            if broker_name != INTERVAL or self.release.assignment_interval
        }


def _whole(name: str, value: str, least: int) -> int:
    try:
        number = int(value)
    except ValueError:
        raise UsageError(f"{name}={value!r} is not a whole number") from None
    if number < least:
        raise UsageError(f"{name}={number} is less than {least}")
    return number
