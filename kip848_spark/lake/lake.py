"""A lake as a library user sees it: its tables as Arrow, read without a JVM."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from kip848_spark.config.storage import StorageSettings
from kip848_spark.errors import UsageError
from kip848_spark.lake.groups import describe_groups
from kip848_spark.lake.location import locate
from kip848_spark.lake.snapshot import LakeSnapshot

AsOf = datetime | str | None
"""A time: ISO 8601 text or a datetime, UTC unless it names another time zone. None: now."""


class Lake:
    """The lake at ``path``, a folder or a URI such as ``s3a://bucket/kip848``.

    ``storage`` has the settings of an object store, by the names in the section ``[storage]`` of
    the configuration file. A setting that is missing is taken from the environment's ``AWS_*``
    variables. Nothing is read until a method is called. The lake need not exist yet: the jobs
    (`kip848_spark.run`, ...) create it.

    Every method that reads takes ``as_of`` and reads all tables as the last run that had finished
    by then left them. They raise LakeError if there is no such run or the lake can't be read,
    and UsageError if ``as_of`` is not a time.
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
        return self._snapshot(as_of).table(name, groups)

    def dataset(self, name: str, *, as_of: AsOf = None) -> ds.Dataset:
        """As `table`, as a dataset: DuckDB, Polars and Arrow read it batch by batch."""
        return self._snapshot(as_of).dataset(name)

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
        return describe_groups(self._snapshot(as_of), groups)

    def _snapshot(self, as_of: AsOf) -> LakeSnapshot:
        return LakeSnapshot(locate(self.path), parse_time(as_of), storage=self.storage.delta())


def parse_time(time: AsOf) -> datetime | None:
    """``time`` in UTC. Raises UsageError if a text is not a time in ISO 8601."""
    if isinstance(time, str):
        try:
            time = datetime.fromisoformat(time)
        except ValueError:
            raise UsageError(
                f"{time!r} is not a time.", "Write it as 2026-11-21T10:00 (UTC)."
            ) from None
    if time is None:
        return None
    return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
