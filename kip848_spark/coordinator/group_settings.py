"""The settings of a group (``IncrementalAlterConfigs`` with resource type GROUP): names, defaults
and limits, as ``DescribeConfigs`` of 4.0.2, 4.1.2, 4.2.0 and 4.3.1 shows them.

KIP-848 "Group Configurations". The default of a number is a broker setting, and two more broker
settings limit it. Settings of share and streams groups are accepted and listed; they change nothing
here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NumberSetting:
    """A number. ``broker`` is the broker setting that is its default."""

    broker: str
    least: int
    """The least value that is ever accepted, whatever the broker's limits are."""
    low: str | None = None
    """The broker setting that is its minimum; None without one."""
    high: str | None = None
    """The broker setting that is its maximum; None without one."""


@dataclass(frozen=True, slots=True)
class TextSetting:
    """A text, with a pattern that the whole of it must match."""

    default: str
    pattern: re.Pattern[str]


def _limited(kind: str, name: str, least: int) -> NumberSetting:
    limits = (f"group.{kind}.{limit}.{name}" for limit in ("min", "max"))
    return NumberSetting(f"group.{kind}.{name}", least, *limits)


_DURATION = r"(?i:P(?=.)(\d+D)?(T(?=.)(\d+H)?(\d+M)?(\d+(\.\d{0,9})?S)?)?)"
"""A duration of ISO 8601, as ``by_duration:PT1H`` has it."""

GROUP_SETTINGS: dict[str, NumberSetting | TextSetting] = {
    "consumer.session.timeout.ms": _limited("consumer", "session.timeout.ms", 1),
    "consumer.heartbeat.interval.ms": _limited("consumer", "heartbeat.interval.ms", 1),
    "consumer.assignment.interval.ms": _limited("consumer", "assignment.interval.ms", 0),
    "share.session.timeout.ms": _limited("share", "session.timeout.ms", 1),
    "share.heartbeat.interval.ms": _limited("share", "heartbeat.interval.ms", 1),
    "share.record.lock.duration.ms": _limited("share", "record.lock.duration.ms", 1_000),
    "share.delivery.count.limit": _limited("share", "delivery.count.limit", 2),
    "share.partition.max.record.locks": _limited("share", "partition.max.record.locks", 100),
    "share.assignment.interval.ms": _limited("share", "assignment.interval.ms", 0),
    "share.auto.offset.reset": TextSetting(
        "latest", re.compile(f"latest|earliest|by_duration:{_DURATION}")
    ),
    "share.isolation.level": TextSetting(
        "read_uncommitted", re.compile("read_committed|read_uncommitted")
    ),
    "share.renew.acknowledge.enable": TextSetting("true", re.compile("(?i:true|false)")),
    "streams.session.timeout.ms": _limited("streams", "session.timeout.ms", 1),
    "streams.heartbeat.interval.ms": _limited("streams", "heartbeat.interval.ms", 1),
    "streams.assignment.interval.ms": _limited("streams", "assignment.interval.ms", 0),
    "streams.num.standby.replicas": NumberSetting(
        "group.streams.num.standby.replicas", 0, None, "group.streams.max.standby.replicas"
    ),
    "streams.initial.rebalance.delay.ms": NumberSetting(
        "group.streams.initial.rebalance.delay.ms", 0
    ),
}
"""Every setting of a group by its name; `Release.group_settings` names those of a release."""

BROKER_DEFAULTS: dict[str, tuple[int, int]] = {
    "group.share.session.timeout.ms": (45_000, 1),
    "group.share.min.session.timeout.ms": (45_000, 1),
    "group.share.max.session.timeout.ms": (60_000, 1),
    "group.share.heartbeat.interval.ms": (5_000, 1),
    "group.share.min.heartbeat.interval.ms": (5_000, 1),
    "group.share.max.heartbeat.interval.ms": (15_000, 1),
    "group.share.record.lock.duration.ms": (30_000, 1_000),
    "group.share.min.record.lock.duration.ms": (15_000, 1_000),
    "group.share.max.record.lock.duration.ms": (60_000, 1_000),
    "group.share.delivery.count.limit": (5, 2),
    "group.share.min.delivery.count.limit": (2, 2),
    "group.share.max.delivery.count.limit": (10, 2),
    "group.share.partition.max.record.locks": (2_000, 100),
    "group.share.min.partition.max.record.locks": (100, 100),
    "group.share.max.partition.max.record.locks": (4_000, 100),
    "group.share.max.size": (200, 1),
    "group.share.assignment.interval.ms": (1_000, 0),
    "group.share.min.assignment.interval.ms": (0, 0),
    "group.share.max.assignment.interval.ms": (15_000, 0),
    "group.streams.session.timeout.ms": (45_000, 1),
    "group.streams.min.session.timeout.ms": (45_000, 1),
    "group.streams.max.session.timeout.ms": (60_000, 1),
    "group.streams.heartbeat.interval.ms": (5_000, 1),
    "group.streams.min.heartbeat.interval.ms": (5_000, 1),
    "group.streams.max.heartbeat.interval.ms": (15_000, 1),
    "group.streams.num.standby.replicas": (0, 0),
    "group.streams.max.standby.replicas": (2, 0),
    "group.streams.initial.rebalance.delay.ms": (3_000, 0),
    "group.streams.assignment.interval.ms": (1_000, 0),
    "group.streams.min.assignment.interval.ms": (0, 0),
    "group.streams.max.assignment.interval.ms": (15_000, 0),
}
"""Broker settings of share and streams groups: default and minimum."""
