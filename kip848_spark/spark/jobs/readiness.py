"""Judges which groups can move to the consumer protocol: the rows of a run in `readiness`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from kip848_spark.errors import SourceError
from kip848_spark.insight.readiness_cluster import (
    SETTINGS,
    facts_from_features,
    facts_from_settings,
)
from kip848_spark.lake.conditions import Condition
from kip848_spark.lake.ledger import Run, quarantined_records
from kip848_spark.lake.readiness import LakeReadiness, assess_tables
from kip848_spark.spark.sources import KafkaSource
from kip848_spark.spark.storage.tables import LakeTables


@dataclass(frozen=True)
class _Newest:
    """A `TableReader` of the newest version of each table."""

    lake: LakeTables

    def has(self, table: str) -> bool:
        return True  # a run creates the tables that a lake lacks

    def read(self, table: str, columns: Sequence[str], *conditions: Condition) -> pa.Table:
        return self.lake.columns(table, columns, conditions)


def cluster_facts(source: KafkaSource) -> dict[str, Any]:
    """The release line, features and settings of the brokers that rules depend on. The settings are
    left out if the client lacks DESCRIBE_CONFIGS, and everything if the cluster does not answer.
    The run goes on, and these rules are not judged."""
    facts: dict[str, Any] = {}
    with suppress(SourceError):
        facts |= facts_from_features(source.cluster.features())
        facts |= facts_from_settings(source.cluster.broker_settings(list(SETTINGS)))
    return facts


def judge_readiness(lake: LakeTables, run: Run, answered: Mapping[str, Any]) -> LakeReadiness:
    """Applies the rules to all groups, as of the start of ``run``, and adds its rows to
    `readiness`. ``answered`` are facts of the cluster. Returns the verdicts."""
    quarantined = quarantined_records(lake.rows("runs"))
    quarantined += run.counts.quarantined if run.counts else 0
    found = assess_tables(_Newest(lake), run.started_at, answered, all_decoded=not quarantined)
    rows = found.assessment.rows
    lake.append_columns("readiness", rows, run.run_id, run.identity.cluster_id)
    return found
