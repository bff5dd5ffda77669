"""Which tests one process runs when they run side by side (pytest-xdist, two processes).

A Spark session and a broker take seconds to start, so the files that use the shared ones stay
together: those with the broker in one process, the other ones with a session in one process. Every
other file is a group of its own. xdist's ``loadgroup`` does the same by marks, but version 3.8
marks tests in a way that pytest 9.2 no longer reads.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from xdist.scheduler.loadscope import LoadScopeScheduling

BROKER, SPARK = "broker", "spark"
_FILES = {
    BROKER: (
        "tests/cli/test_errors.py",
        "tests/cli/test_group_filters.py",
        "tests/insight/test_explain_broker.py",
        "tests/kafka/test_admin.py",
        "tests/kafka/test_features.py",
        "tests/kafka/test_group_requests.py",
        "tests/local/test_scenarios.py",
        "tests/runtime/test_jars.py",
        "tests/spark/test_kafka.py",
        "tests/spark/test_nights.py",
        "tests/spark/test_same_cluster.py",
        "tests/spark/test_split_partitions.py",
        "tests/test_api.py",
        "tests/test_documentation.py",
    ),
    SPARK: (
        "tests/audit/test_other_assignors.py",
        "tests/cli/test_audit.py",
        "tests/cli/test_conform.py",
        "tests/cli/test_prompt.py",
        "tests/cli/test_repair.py",
        "tests/cli/test_sql_cookbook.py",
        "tests/cli/test_terminal.py",
        "tests/cli/test_verbs.py",
        "tests/simulation/test_run.py",
        "tests/spark/test_acls.py",
        "tests/spark/test_added_columns.py",
        "tests/spark/test_audit.py",
        "tests/spark/test_balanced_tasks.py",
        "tests/spark/test_commit_activity.py",
        "tests/spark/test_daemon.py",
        "tests/spark/test_decode_again.py",
        "tests/spark/test_dump.py",
        "tests/spark/test_erasure.py",
        "tests/spark/test_hostile_captures.py",
        "tests/spark/test_kept_lake.py",
        "tests/spark/test_kept_versions.py",
        "tests/spark/test_lost_tombstones.py",
        "tests/spark/test_maintain.py",
        "tests/spark/test_map_in_arrow.py",
        "tests/spark/test_missed_nights.py",
        "tests/spark/test_offset_reader.py",
        "tests/spark/test_other_readers.py",
        "tests/spark/test_other_sessions.py",
        "tests/spark/test_paths.py",
        "tests/spark/test_progress.py",
        "tests/spark/test_readiness.py",
        "tests/spark/test_repair.py",
        "tests/spark/test_retention.py",
        "tests/spark/test_run.py",
        "tests/spark/test_same_source.py",
        "tests/spark/test_sampling.py",
        "tests/spark/test_saved_audits.py",
        "tests/spark/test_standalone.py",
        "tests/spark/test_storage.py",
        "tests/spark/test_storage_faults.py",
        "tests/spark/test_two_writers.py",
    ),
}
_GROUPS = {file: group for group, files in _FILES.items() for file in files}
_SLOWEST = (
    SPARK,
    "tests/spark/test_s3.py",
    BROKER,
    "tests/test_demo.py",
    "tests/coordinator/test_against_broker.py",
    "tests/simulation/test_log.py",
)
"""The groups that take longest, in descending order."""


def group_of(nodeid: str) -> str:
    """The group of a test."""
    file = nodeid.partition("::")[0]
    return _GROUPS.get(file, file)


def place_of(group: str) -> int:
    """The slowest groups come first, so that both processes end at about the same time."""
    return _SLOWEST.index(group) if group in _SLOWEST else len(_SLOWEST)


def check(items: Sequence[pytest.Item]) -> None:
    """Raises UsageError if a test uses a shared fixture outside of the fixture's group."""
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        group = group_of(item.nodeid)
        missing = group != BROKER and {"broker", "idle_consumers"}.intersection(fixtures)
        if missing or ("spark" in fixtures and group not in (SPARK, BROKER)):
            raise pytest.UsageError(
                f"{item.nodeid} uses the shared broker or Spark session: name its file in "
                "tests/groups.py."
            )


class Scheduler(LoadScopeScheduling):
    """Gives each process a whole group at a time."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)
