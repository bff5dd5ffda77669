"""Facts about the cluster that migration readiness depends on: what the cluster answered, and what
the records prove."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.insight.readiness_versions import KnownRelease

_STRINGS = pa.list_(pa.string())

CLUSTER_FACTS: dict[str, pa.DataType] = {
    "migration_policy": pa.string(),
    "group_version": pa.int32(),
    "rebalance_protocols": _STRINGS,
    "assignors": _STRINGS,
    "default_assignor": pa.string(),
    "max_size": pa.int64(),
    "classic_max_size": pa.int64(),
    "session_timeout": pa.int64(),
    "session_timeout_min": pa.int64(),
    "session_timeout_max": pa.int64(),
    "classic_groups": pa.int64(),
}
"""The facts by name. Times are in milliseconds."""

CLUSTER_WORDS = {
    "release": "the brokers' release",
    "migration_policy": "group.consumer.migration.policy",
    "group_version": "whether the feature group.version is finalized",
    "rebalance_protocols": "group.coordinator.rebalance.protocols",
    "assignors": "group.consumer.assignors",
    "default_assignor": "group.consumer.assignors",
    "max_size": "group.consumer.max.size",
    "classic_max_size": "group.max.size",
    "session_timeout": "group.consumer.session.timeout.ms",
    "session_timeout_min": "group.consumer.min.session.timeout.ms",
    "session_timeout_max": "group.consumer.max.session.timeout.ms",
    "classic_groups": "the number of classic groups",
}
"""What each fact is called in a report."""

SETTINGS = {
    "group.consumer.migration.policy": "migration_policy",
    "group.coordinator.rebalance.protocols": "rebalance_protocols",
    "group.consumer.assignors": "assignors",
    "group.consumer.max.size": "max_size",
    "group.max.size": "classic_max_size",
    "group.consumer.session.timeout.ms": "session_timeout",
    "group.consumer.min.session.timeout.ms": "session_timeout_min",
    "group.consumer.max.session.timeout.ms": "session_timeout_max",
}
"""The broker settings that become facts."""
_BUILT_IN = {
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": "uniform",
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": "range",
}


@dataclass(frozen=True)
class KnownCluster:
    """What is known of the cluster. A fact that is missing is not known."""

    facts: Mapping[str, Any] = field(default_factory=dict)
    release: KnownRelease = field(default_factory=KnownRelease)
    release_words: str | None = None
    """The release, and from what it is known, for people."""

    def value(self, name: str) -> Any:
        """The fact ``name``; None if it is not known."""
        return self.facts.get(name)


def facts_from_settings(settings: Mapping[str, str | None]) -> dict[str, Any]:
    """Facts from broker settings by their names in Kafka; settings without a value are left out."""
    found: dict[str, Any] = {}
    for setting, name in SETTINGS.items():
        text = settings.get(setting)
        if text is None:
            continue
        if CLUSTER_FACTS[name] == _STRINGS:
            words = [word.strip() for word in text.split(",") if word.strip()]
            found[name] = [_BUILT_IN.get(word, word) for word in words]
        else:
            found[name] = int(text) if CLUSTER_FACTS[name] == pa.int64() else text.lower()
    if found.get("assignors"):
        found["default_assignor"] = found["assignors"][0]
    return found


class Features(Protocol):
    """The features of a broker: the newest level of ``metadata.version`` that it supports, and the
    finalized level of ``group.version``."""

    @property
    def metadata_version(self) -> int: ...
    @property
    def group_version(self) -> int: ...


def facts_from_features(brokers: Sequence[Features]) -> dict[str, Any]:
    """Facts from the features of all brokers; nothing if there are none."""
    if not brokers:
        return {}
    return {
        "metadata_versions": sorted({one.metadata_version for one in brokers}),
        "group_version": min(one.group_version for one in brokers),
    }


def known_cluster(
    groups: pa.Table,
    answered: Mapping[str, Any] | None = None,
    *,
    has_assignment_epochs: bool = False,
) -> KnownCluster:
    """What is known of the cluster. ``groups`` is the table of that name. ``answered`` has facts
    of `CLUSTER_FACTS`, the brokers' ``release`` (such as ``4.3.1``), and the ``metadata_versions``
    that they support, as far as they are known.
    ``has_assignment_epochs``: some assignment has an epoch, which proves Kafka 4.3 or later.

    Raises ValueError if the release is not one."""
    given = dict(answered or {})
    exact, levels = given.pop("release", None), given.pop("metadata_versions", ())
    facts = {name: value for name, value in given.items() if value is not None}
    types = groups["type"].combine_chunks()
    new = pc.is_in(types, value_set=pa.array(["consumer"]))
    facts["classic_groups"] = int(np.count_nonzero(pc.equal(types, "classic").to_numpy(False)))
    if pc.any(new).as_py():
        facts.setdefault("group_version", 1)
    if exact:
        return KnownCluster(facts, KnownRelease.of(exact), f"{exact} (given)")
    if levels:
        release = KnownRelease.of_levels(levels)
        return KnownCluster(facts, release, f"{release.words} (the brokers)")
    at_least = None
    if has_assignment_epochs:
        at_least = "4.3"
    elif pc.any(pc.fill_null(pc.not_equal(groups["metadata_hash"], 0), False)).as_py():
        at_least = "4.1"
    release = KnownRelease.of(None, at_least)
    return KnownCluster(facts, release, f"{release.words} (records)" if at_least else None)
