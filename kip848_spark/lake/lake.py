"""A lake as a library user sees it: its tables as Arrow, read without a JVM."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from kip848_spark.config.storage import StorageSettings
from kip848_spark.config.times import parse_time
from kip848_spark.errors import UsageError
from kip848_spark.lake.chronicle import group_chronicle, partition_chronicles
from kip848_spark.lake.explanation import explain
from kip848_spark.lake.groups import describe_groups
from kip848_spark.lake.history import STATE_TABLES, StateAt, state_at, without_history
from kip848_spark.lake.hygiene import read_hygiene
from kip848_spark.lake.location import locate
from kip848_spark.lake.rebalances import read_rebalances, require_group
from kip848_spark.lake.snapshot import LakeSnapshot

AsOf = datetime | str | None
"""A time: a datetime, or a text such as ``2026-11-21T10:00``, ``2h ago`` or ``yesterday``. It is in
UTC unless it names another time zone. None: now."""


class Lake:
    """The lake at ``path``, a folder or a URI such as ``s3a://bucket/kip848``.

    ``storage`` has the settings of an object store, by the names in the section ``[storage]`` of
    the configuration file. A setting that is missing is taken from the environment's ``AWS_*``
    variables. Nothing is read until a method is called. The lake need not exist yet: the jobs
    (`kip848_spark.run`, ...) create it.

    The state tables (`groups`, `members`, `assignments`, `offsets`) and `describe` answer for any
    moment ``as_of`` of which the lake has records, whenever its runs took place. `dataset`, and
    `table` for the other tables, read what the last run that had finished by then left.
    All methods raise LakeError if the lake can't be read or has no such run, and UsageError if
    ``as_of`` is not a time.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, storage: Mapping[str, str] | None = None
    ) -> None:
        self.path = os.fspath(path)
        self.storage = StorageSettings(dict(storage or {}))

    def __repr__(self) -> str:
        return f"Lake({self.path!r})"

    def table(
        self, name: str, *, groups: Sequence[str] | None = None, as_of: AsOf = None
    ) -> pa.Table:
        """The table ``name`` (README.md lists them), or its rows of ``groups``.

        Raises NotFoundError if a lake has no such table.
        """
        if name in STATE_TABLES:
            return self._state(as_of).table(name, groups)
        return self.snapshot(as_of).table(name, groups)

    def dataset(self, name: str, *, as_of: AsOf = None) -> ds.Dataset:
        """A table as a dataset, as a run left it: DuckDB, Polars and Arrow read it batch by
        batch."""
        return self.snapshot(as_of).dataset(name)

    def groups(self, *, as_of: AsOf = None) -> pa.Table:
        """The table `groups`: one row for each group that existed then."""
        return self.table("groups", as_of=as_of)

    def members(self, *, groups: Sequence[str] | None = None, as_of: AsOf = None) -> pa.Table:
        """The table `members`: one row for each member of ``groups`` (all if None)."""
        return self.table("members", groups=groups, as_of=as_of)

    def assignments(self, *, groups: Sequence[str] | None = None, as_of: AsOf = None) -> pa.Table:
        """The table `assignments`: one row for each partition that a member has in a role."""
        return self.table("assignments", groups=groups, as_of=as_of)

    def offsets(self, *, groups: Sequence[str] | None = None, as_of: AsOf = None) -> pa.Table:
        """The table `offsets`: the last committed offset of each group, topic and partition."""
        return self.table("offsets", groups=groups, as_of=as_of)

    def runs(self, *, as_of: AsOf = None) -> pa.Table:
        """The ledger: one row for each finished run."""
        return self.table("runs", as_of=as_of)

    def describe(
        self, groups: Sequence[str] | None = None, *, as_of: AsOf = None
    ) -> list[dict[str, Any]]:
        """Groups (all if None) as plain values: the columns of `groups`, and lists of their members
        (``members_now``, with the partitions by role) and committed offsets (``offsets``).

        Raises NotFoundError, with similar names, if there is no such group.
        """
        return describe_groups(self._state(as_of), groups)

    def sql(self, query: str, *, as_of: AsOf = None) -> pa.Table:
        """The result of a query in Spark's dialect, which DuckDB answers, over the tables as a run
        left them (docs/sql.md).

        Raises UsageError if the query is wrong, does more than read, or needs Spark.
        """
        from kip848_spark.lake.sql.engine import DuckDBEngine
        from kip848_spark.lake.sql.rules import NotTranslatable

        try:
            return DuckDBEngine(self.snapshot(as_of)).run(query).table()
        except NotTranslatable as cause:
            raise UsageError(
                f"DuckDB does not answer {cause} as Spark does.",
                "`kip848 sql` answers the query with Spark.",
            ) from None

    def rebalances(
        self, groups: Sequence[str] | None = None, *, since: AsOf = None, until: AsOf = None
    ) -> pa.Table:
        """The rows of the table `rebalances`, of ``groups`` (all if None), that began at or after
        ``since`` and before ``until``, in the order of their start."""
        start, end = utc_time(since, "since"), utc_time(until, "until")
        return read_rebalances(self.snapshot(), groups, start, end)

    def history(
        self, group: str, *, since: AsOf = None, until: AsOf = None
    ) -> list[dict[str, Any]]:
        """What happened in a group, in the order of the records: who joined and left, and who got
        and gave up which partitions, as plain values.

        Raises NotFoundError, with similar names, if the lake never had such a group.
        """
        start, end = utc_time(since, "since"), utc_time(until, "until")
        return group_chronicle(self.snapshot(), group, start, end).described()

    def owners(
        self,
        topic: str,
        partition: int,
        *,
        group: str | None = None,
        since: AsOf = None,
        until: AsOf = None,
    ) -> list[dict[str, Any]]:
        """The owners of a partition through time in each group (or in one), as plain values.
        ``member_id`` is None where nobody owned it.

        Raises NotFoundError, with similar names, if no group ever owned it.
        """
        start, end = utc_time(since, "since"), utc_time(until, "until")
        found = partition_chronicles(self.snapshot(), (topic, partition), group, start, end)
        return [row for one in found for row in one.described()]

    def hygiene(self, group: str | None = None, *, days: int = 7) -> dict[str, Any]:
        """Who makes the topic grow, which committed offsets nobody needs, and which commits went
        back, in the last ``days`` days, for all groups or one: what `kip848 hygiene --json` prints
        (docs/hygiene.md).

        Raises NotFoundError if the lake never had such a group.
        """
        snapshot = self.snapshot()
        if group is not None:
            require_group(snapshot, group)
        return read_hygiene(snapshot, group, days).described()

    def explain(
        self,
        group: str,
        *,
        since: AsOf = None,
        until: AsOf = None,
        epoch: int | None = None,
    ) -> dict[str, Any]:
        """The story of the rebalances of a group that began at or after ``since`` and before
        ``until``, or of the one to ``epoch``; without ``since`` and ``epoch``, of its last episode
        of rebalances, or the last one before ``until``. `kip848 explain --json` prints the same
        values (docs/api.md describes them).

        Raises NotFoundError if the lake never had such a group, or the group no such epoch.
        """
        start, end = utc_time(since, "since"), utc_time(until, "until")
        return explain(self.snapshot(), group, start, end, epoch).described()

    def snapshot(self, as_of: AsOf = None) -> LakeSnapshot:
        """The tables as the last run left them, or the last one that had finished by ``as_of``."""
        time = utc_time(as_of, "as_of")
        return LakeSnapshot(locate(self.path), time, storage=self.storage.delta())

    def _state(self, as_of: AsOf) -> LakeSnapshot | StateAt:
        """The state tables at a time. Warns if the lake is of an earlier version, which only knows
        the ends of runs."""
        newest = self.snapshot()
        state = state_at(newest, utc_time(as_of, "as_of"))
        if sentence := without_history(newest, state):
            warnings.warn(sentence, stacklevel=3)
        return state


def utc_time(time: AsOf, what: str = "") -> datetime | None:
    """``time`` in UTC. ``what`` names it in messages. Raises UsageError if a text is not a time
    (`config.times.parse_time`)."""
    if isinstance(time, str):
        return parse_time(time, what)
    if time is None:
        return None
    return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
