"""Tables of a lake on this machine, written without Spark: made, added to, put in the place of.

Each call is one Delta commit, by delta-rs. A small write through Spark takes a handful of jobs,
most of them Delta's own look at its log; here it takes milliseconds. Spark's readers see the commit
at once, as those of any other writer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, Schema
from deltalake.transaction import (
    AddAction,
    CommitProperties,
    PostCommitHookProperties,
    RemoveAction,
)

from kip848_spark.lake import statistics
from kip848_spark.lake.arrow_files import DataFile, WriteTarget, open_writers
from kip848_spark.lake.tables import TableDefinition

_PLAIN = (1, 2)
"""Reader and writer version of a table that needs no more than files and a log entry."""
_HOOKS = PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False)


def create_table(path: str, table: TableDefinition) -> None:
    """Makes an empty table."""
    DeltaTable.create(
        path,
        Schema.from_arrow(table.schema),
        configuration=table.properties,
        post_commithook_properties=_HOOKS,
    )


def is_plain(path: str, table: TableDefinition) -> bool:
    """True if the table is as `create_table` creates it: it has no other columns, no partitions,
    and no feature that a reader or writer of its files would have to support."""
    found = DeltaTable(path)
    protocol = found.protocol()
    return (
        protocol.min_reader_version <= _PLAIN[0]
        and protocol.min_writer_version <= _PLAIN[1]
        and not found.metadata().partition_columns
        and [field.name for field in found.schema().fields] == list(table.fields)
    )


def commit(path: str, version: int, files: Sequence[DataFile], mode: str = "append") -> None:
    """Makes ``files`` part of the table, or all there is of it (``overwrite``), in the commit that
    follows ``version``. Raises DeltaError if there is another such commit."""
    actions: list[AddAction | RemoveAction] = [
        AddAction(quote(file.name), file.size, {}, file.modified_ms, True, file.stats)
        for file in files
    ]
    commit_actions(path, version, actions, mode)


def commit_actions(
    path: str, version: int, actions: Sequence[AddAction | RemoveAction], mode: str = "append"
) -> None:
    """As `commit`, of ``actions``."""
    table = DeltaTable(path, version=version)
    table.create_write_transaction(
        list(actions),
        mode=mode,
        schema=table.schema(),
        post_commithook_properties=_HOOKS,
        commit_properties=CommitProperties(max_commit_retries=0),
    )


def statistics_corrections(path: str, table: TableDefinition) -> list[AddAction]:
    """See `statistics.statistics_corrections`."""
    return statistics.statistics_corrections(DeltaTable(path), table.stats_columns)


def file_paths(path: str) -> list[str]:
    """The paths of the files that hold the rows of the table."""
    names = pa.table(DeltaTable(path).get_add_actions()).column("path").to_pylist()
    return [f"{path}/{name}" for name in names]


def read_rows(path: str) -> list[dict[str, Any]]:
    """All rows of a small table."""
    found = DeltaTable(path).to_pyarrow_dataset().to_table(use_threads=False)
    return list(found.to_pylist(maps_as_pydicts="strict"))


def count_rows(path: str) -> int:
    """How many rows a table has, by the statistics of its files."""
    return int(DeltaTable(path).count())


def max_by_key(
    path: str, column: str, key: Sequence[str], unless: str, value: str
) -> dict[tuple[Any, ...], Any]:
    """The largest ``column`` of each ``key``, of the rows in which ``unless`` is not ``value``."""
    dataset = DeltaTable(path).to_pyarrow_dataset()
    wanted = pc.field(unless) != value
    newest: dict[tuple[Any, ...], Any] = {}
    for batch in dataset.to_batches(columns=[*key, column], filter=wanted, use_threads=False):
        table = pa.Table.from_batches([batch])
        for row in table.group_by(list(key)).aggregate([(column, "max")]).to_pylist():
            found = tuple(row[name] for name in key)
            newest[found] = max(newest.get(found, row[f"{column}_max"]), row[f"{column}_max"])
    return newest


def write_rows(target: WriteTarget, rows: Sequence[Mapping[str, Any]]) -> list[DataFile]:
    """Writes ``rows`` as files of a table, without a commit."""
    names = [name for name in target.fields if name not in target.constants]
    with open_writers([target]) as made:
        columns = {
            name: pa.array([_value(row[name]) for row in rows], target.fields[name])
            for name in names
        }
        made[target.table].write(columns)
        return made[target.table].close()


def _value(value: Any) -> Any:
    return list(value.items()) if isinstance(value, Mapping) else value
