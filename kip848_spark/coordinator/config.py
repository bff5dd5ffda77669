"""Broker settings by Kafka's names, and group settings that override them, validated as a broker
does.

KIP-848 "Broker Configurations" and "Group Configurations". Group settings are changed with
``IncrementalAlterConfigs`` and resource type GROUP. They are stored apart from the group, so they
survive its deletion (KIP-848 "Rejected Alternatives").
"""

from __future__ import annotations

from collections.abc import Mapping

from kip848_spark.coordinator.assignors import ASSIGNORS, Assignor, find_assignors
from kip848_spark.coordinator.faults import GroupError
from kip848_spark.coordinator.group_settings import (
    BROKER_DEFAULTS,
    GROUP_SETTINGS,
    NumberSetting,
)
from kip848_spark.coordinator.releases import Release
from kip848_spark.errors import UsageError

INT_MAX = 2**31 - 1

SESSION = "group.consumer.session.timeout.ms"
HEARTBEAT = "group.consumer.heartbeat.interval.ms"
INTERVAL = "group.consumer.assignment.interval.ms"
ASSIGNORS_SETTING = "group.consumer.assignors"
MAX_SIZE = "group.consumer.max.size"
MIGRATION = "group.consumer.migration.policy"
REGEX_REFRESH = "group.consumer.regex.refresh.interval.ms"
PROTOCOLS = "group.coordinator.rebalance.protocols"
RETENTION_MINUTES = "offsets.retention.minutes"
RETENTION_CHECK = "offsets.retention.check.interval.ms"
METADATA_BYTES = "offset.metadata.max.bytes"

NUMBERS: dict[str, tuple[int, int]] = {  # name: default, minimum
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
    **BROKER_DEFAULTS,
}
_LISTS: dict[str, tuple[str, frozenset[str]]] = {
    ASSIGNORS_SETTING: ("uniform,range", frozenset()),
    MIGRATION: ("bidirectional", frozenset({"bidirectional", "upgrade", "downgrade", "disabled"})),
    PROTOCOLS: ("classic,consumer", frozenset({"classic", "consumer", "share", "streams"})),
}
CLASSIC_JOIN_TIMEOUT_MS = 300_000
"""A new classic member must complete its first join within this time."""

_BY_BROKER_SETTING = {
    setting.broker: (name, setting)
    for name, setting in GROUP_SETTINGS.items()
    if isinstance(setting, NumberSetting)
}


class BrokerConfig:
    """The settings of one broker, and the settings of groups that override them."""

    def __init__(self, release: Release, settings: Mapping[str, str] | None = None) -> None:
        self.release = release
        self._numbers = {name: default for name, (default, _) in NUMBERS.items()}
        self._lists = {name: default for name, (default, _) in _LISTS.items()}
        self._assignors: dict[str, Assignor] = dict(ASSIGNORS)
        self._groups: dict[str, dict[str, int | str]] = {}
        for name, value in (settings or {}).items():
            self._set(name, str(value))
        self._check_ranges()

    def _set(self, name: str, value: str) -> None:
        if name in NUMBERS:
            self._numbers[name] = _parse_int(name, value, NUMBERS[name][1])
        elif name in _LISTS:
            words = [w.strip() for w in value.split(",") if w.strip()]
            if name == ASSIGNORS_SETTING:
                self._set_assignors(words)
                return
            if name == MIGRATION:
                words = [w.lower() for w in words]
            known = _LISTS[name][1]
            if not words or not set(words) <= known or (name == MIGRATION and len(words) > 1):
                raise UsageError(f"{name}={value!r}: use {', '.join(sorted(known))}")
            self._lists[name] = ",".join(words)
        else:
            raise UsageError(f"{name!r} is not a broker setting of the group coordinator")

    def _set_assignors(self, listed: list[str]) -> None:
        self._assignors = {}
        for name, assignor in find_assignors(listed).items():
            if assignor is None:
                raise UsageError(
                    f"{ASSIGNORS_SETTING}: there is no assignor {name!r}",
                    f"Use {' or '.join(sorted(ASSIGNORS))}, or a Python class as module:Class.",
                )
            self._assignors[name] = assignor

    def _check_ranges(self) -> None:
        """A broker does not start unless min <= value <= max (KIP-848 "Broker Configurations")."""
        ranges = [
            (SESSION, "group.consumer.min.session.timeout.ms"),
            (HEARTBEAT, "group.consumer.min.heartbeat.interval.ms"),
        ]
        if self.release.assignment_interval:
            ranges.append((INTERVAL, "group.consumer.min.assignment.interval.ms"))
        for name, least in ranges:
            most = least.replace(".min.", ".max.")
            low, value, high = (self._numbers[n] for n in (least, name, most))
            if not low <= value <= high:
                raise UsageError(
                    f"{name}={value} is not between {least}={low} and {most}={high}",
                    "Set all three.",
                )
        if self._numbers[HEARTBEAT] >= self._numbers[SESSION]:
            raise UsageError(f"{HEARTBEAT} must be less than {SESSION}")
        if (
            self._numbers["group.max.session.timeout.ms"]
            < self._numbers["group.min.session.timeout.ms"]
        ):
            raise UsageError("group.max.session.timeout.ms is below group.min.session.timeout.ms")

    def number(self, name: str) -> int:
        """A numeric broker setting."""
        return self._numbers[name]

    def for_group(self, group_id: str, name: str) -> int:
        """A group's value of the broker setting ``name``: its own, or else the broker's."""
        own_name, setting = _BY_BROKER_SETTING[name]
        own = self._groups.get(group_id, {}).get(own_name)
        if not isinstance(own, int):
            return self._numbers[name]
        return self._clamp(setting, own) if self.release.clamps_group_settings else own

    def for_streams_group(self, group_id: str, name: str) -> int:
        """As `for_group`, of a streams group."""
        own = self._groups.get(group_id)
        if not own or not self.release.streams_own_settings_hide_brokers:
            return self.for_group(group_id, name)
        found = own.get(_BY_BROKER_SETTING[name][0])
        return found if isinstance(found, int) else NUMBERS[name][0]

    def _clamp(self, setting: NumberSetting, value: int) -> int:
        """The value within the broker's limits, which may have changed since it was set."""
        if setting.low is not None:
            value = max(value, self._numbers[setting.low])
        return value if setting.high is None else min(value, self._numbers[setting.high])

    def keep_group_settings(self, other: BrokerConfig) -> None:
        """Take over the settings of all groups from ``other``: those of this broker before it was
        restarted with other settings of its own.
        """
        self._groups = {group_id: dict(own) for group_id, own in other._groups.items()}

    def assignment_interval(self, group_id: str) -> int:
        """Minimum time (ms) between two target assignments of a group (4.3; 0 in older
        releases).
        """
        return self.for_group(group_id, INTERVAL) if self.release.assignment_interval else 0

    @property
    def assignors(self) -> list[str]:
        """The server-side assignors on offer; the first one is the default."""
        return list(self._assignors)

    def assignor(self, name: str) -> Assignor:
        """The server-side assignor of that name. Raises UsageError if a member of a loaded log asks
        for one that is not on offer.
        """
        found = self._assignors.get(name)
        if found is None:
            raise UsageError(
                f"A member asks for the assignor {name!r}, which the broker does not have.",
                f"Name it in {ASSIGNORS_SETTING}.",
            )
        return found

    @property
    def consumer_protocol(self) -> bool:
        """Whether the new protocol is enabled."""
        return "consumer" in self._lists[PROTOCOLS].split(",")

    @property
    def allows_upgrade(self) -> bool:
        """Whether a classic group with members may become a consumer group."""
        return self._lists[MIGRATION] in ("bidirectional", "upgrade")

    @property
    def allows_downgrade(self) -> bool:
        """Whether a consumer group with members may become a classic group."""
        return self._lists[MIGRATION] in ("bidirectional", "downgrade")

    @property
    def migration_disabled(self) -> bool:
        """Whether the migration policy is ``disabled``."""
        return self._lists[MIGRATION] == "disabled"

    def alter_group(self, group_id: str, changes: Mapping[str, str | None]) -> None:
        """IncrementalAlterConfigs for a GROUP: a value sets, ``None`` deletes. Raises
        GroupError.
        """
        if not group_id:
            raise GroupError("INVALID_REQUEST", "the group id is empty")
        own = dict(self._groups.get(group_id, {}))
        for name, value in changes.items():
            if value is None:
                own.pop(name, None)
            else:
                own[name] = self._group_value(name, value)
        self._check_heartbeats(own)
        self._groups[group_id] = own

    def _group_value(self, name: str, value: str) -> int | str:
        if name not in self.release.group_settings:
            raise GroupError("INVALID_CONFIG", f"{name!r} is not a group setting")
        setting = GROUP_SETTINGS[name]
        if not isinstance(setting, NumberSetting):
            if setting.pattern.fullmatch(value) is None:
                raise GroupError("INVALID_CONFIG", f"{name} must not be {value!r}")
            return value
        try:
            number = _parse_int(name, value, setting.least)
        except UsageError as bad:
            raise GroupError("INVALID_CONFIG", bad.message) from None
        nearest = self._clamp(setting, number)
        if number != nearest:
            word = "least" if number < nearest else "most"
            raise GroupError("INVALID_CONFIG", f"{name} must be at {word} {nearest}")
        return number

    def _check_heartbeats(self, own: Mapping[str, int | str]) -> None:
        """The interval of heartbeats must be less than the session timeout."""
        for kind in ("consumer", "share", "streams"):
            heartbeat, session = (
                int(own.get(f"{kind}.{name}", self._numbers[f"group.{kind}.{name}"]))
                for name in ("heartbeat.interval.ms", "session.timeout.ms")
            )
            if heartbeat >= session:
                raise GroupError(
                    "INVALID_CONFIG",
                    f"{kind}: the heartbeat interval must be less than the session timeout",
                )

    def describe_group(self, group_id: str) -> dict[str, str]:
        """Every setting of a group by its group name, own or inherited."""
        own = self._groups.get(group_id, {})
        shown: dict[str, str] = {}
        for name in sorted(self.release.group_settings):
            setting = GROUP_SETTINGS[name]
            default: int | str
            if isinstance(setting, NumberSetting):
                default = self._numbers[setting.broker]
            else:
                default = setting.default
            shown[name] = str(own.get(name, default))
        return shown


def _parse_int(name: str, value: str, least: int) -> int:
    try:
        number = int(value)
    except ValueError:
        raise UsageError(f"{name}={value!r} is not an integer") from None
    if number < least:
        raise UsageError(f"{name}={number} is less than {least}")
    return number
