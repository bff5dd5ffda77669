"""Reads, creates and changes Delta tables with delta-rs, without Spark.

Each write is one Delta commit. A small write through Spark takes several jobs, most of them to read
Delta's log; here it takes milliseconds. Spark sees the commit at once.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import ColumnProperties, DeltaTable, Schema, WriterProperties
from deltalake.transaction import (
    AddAction,
    CommitProperties,
    PostCommitHookProperties,
    RemoveAction,
)

from kip848_spark.lake import statistics
from kip848_spark.lake.arrow_files import DataFile, WriteTarget, open_writers
from kip848_spark.lake.conditions import Condition, all_of
from kip848_spark.lake.delta_folder import DeltaFolder, TableFolder
from kip848_spark.lake.encodings import DIFFERENCES, columns_of_large_numbers
from kip848_spark.lake.merging import merge_apart
from kip848_spark.lake.replacement import replace_files
from kip848_spark.lake.rows_with import RowsWith, matching_files
from kip848_spark.lake.tables import TableDefinition

_PLAIN = (1, 2)
"""The protocol versions (reader, writer) of a table without special features."""
_HOOKS = PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False)
"""Old log entries stay, as the property `KEEP_VERSIONS` of the tables says."""


def create_table(place: TableFolder, table: TableDefinition) -> None:
    """Creates an empty table. Raises DeltaError if there is a table."""
    folder = DeltaFolder.at(place)
    DeltaTable.create(
        folder.uri,
        Schema.from_arrow(table.schema),
        configuration=table.properties,
        storage_options=dict(folder.options) or None,
        post_commithook_properties=_HOOKS,
    )


def is_plain(place: TableFolder, table: TableDefinition) -> bool:
    """True if the table is as `create_table` creates it, or as an earlier version of this program
    did: it has no other columns, no partitions, and no feature that a reader or writer of its files
    would have to support."""
    found = DeltaFolder.at(place).open()
    protocol = found.protocol()
    return (
        protocol.min_reader_version <= _PLAIN[0]
        and protocol.min_writer_version <= _PLAIN[1]
        and not found.metadata().partition_columns
        and {field.name for field in found.schema().fields} <= table.fields.keys()
    )


def column_names(place: TableFolder) -> list[str]:
    """The names of the columns of the newest version."""
    return [field.name for field in DeltaFolder.at(place).open().schema().fields]


def field_paths(place: TableFolder) -> list[str]:
    """The names of the columns of the newest version, and the fields of their structs, as
    ``column.field``."""
    paths = []
    for field in DeltaFolder.at(place).open().schema().fields:
        paths.append(field.name)
        paths += [f"{field.name}.{inner.name}" for inner in getattr(field.type, "fields", ())]
    return paths


def add_columns(place: TableFolder, table: TableDefinition, names: Sequence[str]) -> None:
    """Adds the columns ``names`` of ``table``, which are null in all rows, in a commit of its own.
    Of a struct that the table has, adds the fields that are missing. Raises DeltaError."""
    added = Schema.from_arrow(pa.schema([table.schema.field(name) for name in names]))
    DeltaFolder.at(place).open().alter.add_columns(added.fields, post_commithook_properties=_HOOKS)


def table_properties(place: TableFolder) -> dict[str, str]:
    """The table properties of the newest version."""
    configuration = DeltaFolder.at(place).open().metadata().configuration
    return {name: value for name, value in configuration.items() if value is not None}


def set_properties(place: TableFolder, properties: Mapping[str, str]) -> None:
    """Sets table properties, in a commit of its own."""
    DeltaFolder.at(place).open().alter.set_table_properties(
        dict(properties), post_commithook_properties=_HOOKS
    )


def commit(
    place: TableFolder, version: int, files: Sequence[DataFile], mode: str = "append"
) -> None:
    """Adds ``files`` to the table, or replaces all its files by them (``overwrite``), in the commit
    that follows ``version``. Raises DeltaError if another commit follows ``version`` already."""
    commit_actions(place, version, _add_actions(files), mode)


def commit_replacement(
    target: WriteTarget, version: int, files: Sequence[DataFile], replaced: RowsWith
) -> None:
    """Deletes the rows ``replaced`` and adds ``files``, in the commit that follows ``version``.
    Raises DeltaError if another commit follows ``version`` already."""
    removed, remaining = replace_files(version, replaced, target)
    if removed or files:
        commit_actions(target.folder, version, [*removed, *_add_actions([*remaining, *files])])


def commit_rewrite(
    place: TableFolder,
    version: int,
    names: Sequence[str],
    files: Sequence[DataFile],
    rows_change: bool = True,
) -> None:
    """Replaces the data files ``names`` by ``files``, in the commit that follows ``version``.
    Unless ``rows_change``, the new files have the rows of the old ones, which readers of changes
    need not read. Raises DeltaError if another commit follows ``version`` already."""
    found = pa.table(DeltaFolder.at(place).open(version).get_add_actions())
    old = found.filter(pc.is_in(found["path"], value_set=pa.array(names, pa.string())))
    now = round(time.time() * 1000)
    removed = [
        RemoveAction(row["path"], rows_change, now, row["size_bytes"]) for row in old.to_pylist()
    ]
    commit_actions(place, version, [*removed, *_add_actions(files, rows_change)])


def _add_actions(files: Sequence[DataFile], rows_change: bool = True) -> list[AddAction]:
    return [
        AddAction(quote(file.name), file.size, {}, file.modified_ms, rows_change, file.stats)
        for file in files
    ]


def commit_actions(
    place: TableFolder,
    version: int,
    actions: Sequence[AddAction | RemoveAction],
    mode: str = "append",
) -> None:
    """As `commit`, with Delta ``actions`` in place of files."""
    table = DeltaFolder.at(place).open(version)
    table.create_write_transaction(
        list(actions),
        mode=mode,
        schema=table.schema(),
        post_commithook_properties=_HOOKS,
        commit_properties=CommitProperties(max_commit_retries=0),
    )


def compact(place: TableFolder) -> int:
    """Merges small files, in one commit, and returns how many were merged. Raises DeltaError."""
    table = DeltaFolder.at(place).open()
    numbers = columns_of_large_numbers(pa.schema(table.schema().to_arrow()))
    packed = ColumnProperties(dictionary_enabled=False, encoding=DIFFERENCES)
    metrics = table.optimize.compact(
        writer_properties=WriterProperties(
            compression="ZSTD", column_properties=dict.fromkeys(numbers, packed)
        ),
        post_commithook_properties=_HOOKS,
        commit_properties=CommitProperties(max_commit_retries=0),
    )
    return int(metrics["numFilesRemoved"])


def compact_apart(target: WriteTarget, version: int, apart: RowsWith) -> int:
    """Merges small files of a table that has the rows ``apart`` in files of their own
    (`lake.merging`), in the commit that follows ``version``, and returns how many were merged.
    Raises DeltaError."""
    names, files = merge_apart(version, target, apart)
    if names:
        commit_rewrite(target.folder, version, names, files, rows_change=False)
    return len(names)


def vacuum(place: TableFolder, hours: int, keep: Sequence[int]) -> int:
    """Deletes the files that were removed from the table more than ``hours`` ago, or that no commit
    names, unless one of the versions ``keep`` needs them. Returns their number. Raises DeltaError.
    """
    table = DeltaFolder.at(place).open()
    deleted = table.vacuum(
        hours,
        dry_run=False,
        enforce_retention_duration=False,
        full=True,
        keep_versions=list(keep),
        post_commithook_properties=_HOOKS,
    )
    return len(deleted)


def restore(place: TableFolder, version: int) -> None:
    """Restores the rows, columns and properties of ``version``, in a commit of its own. Raises
    DeltaError if a file of that version is gone."""
    DeltaFolder.at(place).open().restore(version, post_commithook_properties=_HOOKS)


def statistics_corrections(place: TableFolder, table: TableDefinition) -> list[AddAction]:
    """See `statistics.statistics_corrections`."""
    return statistics.statistics_corrections(DeltaFolder.at(place).open(), table.stats_columns)


def file_paths(
    place: TableFolder, later_than: str | None = None, without: RowsWith | None = None
) -> list[str]:
    """The URIs of the data files of the newest version, for Spark: those that `_files_with`
    leaves."""
    folder = DeltaFolder.at(place)
    names = _files_with(folder, later_than, without)["path"]
    return [folder.spark_path(name) for name in names.to_pylist()]


def rows_in_files(
    place: TableFolder, later_than: str | None = None, without: RowsWith | None = None
) -> int:
    """The number of rows in the files that `file_paths` names, by their statistics."""
    files = _files_with(DeltaFolder.at(place), later_than, without)
    return int(pc.sum(files["num_records"]).as_py() or 0)


def _files_with(folder: DeltaFolder, later_than: str | None, without: RowsWith | None) -> pa.Table:
    """The actions of the newest version's data files, flattened. Files are left out that by their
    statistics have no row of a later run than ``later_than`` (a run id), or none but the rows
    ``without``."""
    files = pa.table(folder.open().get_add_actions(flatten=True))
    if later_than is not None and "max.run_id" in files.column_names:
        later = pc.greater(files["max.run_id"], later_than)
        files = files.filter(pc.fill_null(later, True))  # without statistics it may have some
    if without is not None:
        files = files.filter(pa.array(~matching_files(files, without)[1]))
    return files


def read_rows(
    place: TableFolder, table: TableDefinition, version: int | None = None
) -> list[dict[str, Any]]:
    """All rows of a small table as plain values, of its newest version or of ``version``. Columns
    of ``table`` that it lacks are null."""
    dataset = DeltaFolder.at(place).open(version).to_pyarrow_dataset()
    schema = table.complete(dataset.schema)
    found = dataset.replace_schema(schema).to_table(use_threads=False)
    return list(found.to_pylist(maps_as_pydicts="strict"))


def read_columns(
    place: TableFolder,
    table: TableDefinition,
    columns: Sequence[str],
    conditions: Sequence[Condition],
) -> pa.Table:
    """These columns of the rows that fulfil all conditions. Columns that the table lacks are
    null."""
    dataset = DeltaFolder.at(place).open().to_pyarrow_dataset()
    dataset = dataset.replace_schema(table.complete(dataset.schema))
    return dataset.to_table(list(columns), filter=all_of(conditions), use_threads=False)


def distinct(
    place: TableFolder,
    table: TableDefinition,
    columns: Sequence[str],
    conditions: Sequence[Condition],
    inside: Sequence[Sequence[str]] = (),
) -> set[tuple[Any, ...]]:
    """The distinct values of ``columns`` in the rows that fulfil all conditions. ``inside``: the
    columns are fields of the structs in the lists with these paths. Reads batch by batch."""
    dataset = DeltaFolder.at(place).open().to_pyarrow_dataset()
    dataset = dataset.replace_schema(table.complete(dataset.schema))
    lists = {f"list {number}": pc.field(*path) for number, path in enumerate(inside)}
    wanted = lists or {name: pc.field(name) for name in columns}
    found: set[tuple[Any, ...]] = set()
    for batch in dataset.to_batches(wanted, filter=all_of(conditions)):
        rows = pa.table(batch.columns, batch.schema.names)
        if inside:
            structs = [pc.list_flatten(column) for column in batch.columns]
            fields = ([pc.struct_field(one, name) for one in structs] for name in columns)
            rows = pa.table([pa.chunked_array(parts) for parts in fields], list(columns))
        rows = rows.group_by(list(columns), use_threads=False).aggregate([])
        found.update(zip(*(rows[name].to_pylist() for name in columns), strict=True))
    return found


def count_rows(place: TableFolder) -> int:
    """The number of rows, from the statistics of the files."""
    return int(DeltaFolder.at(place).open().count())


def max_by_key(
    place: TableFolder, column: str, key: Sequence[str], unless: str, value: str
) -> dict[tuple[Any, ...], Any]:
    """The largest ``column`` for each ``key`` (a tuple of column values), among the rows in which
    ``unless`` is not ``value``."""
    dataset = DeltaFolder.at(place).open().to_pyarrow_dataset()
    wanted = pc.field(unless) != value
    newest: dict[tuple[Any, ...], Any] = {}
    for batch in dataset.to_batches(columns=[*key, column], filter=wanted, use_threads=False):
        table = pa.Table.from_batches([batch])
        for row in table.group_by(list(key)).aggregate([(column, "max")]).to_pylist():
            found = tuple(row[name] for name in key)
            newest[found] = max(newest.get(found, row[f"{column}_max"]), row[f"{column}_max"])
    return newest


def write_columns(target: WriteTarget, rows: pa.Table) -> list[DataFile]:
    """Writes ``rows``, whose columns have the types of the table's, to data files of a table, and
    commits nothing."""
    with open_writers([target]) as made:
        made[target.table].write({name: rows[name].combine_chunks() for name in rows.column_names})
        return made[target.table].close()


def write_rows(target: WriteTarget, rows: Sequence[Mapping[str, Any]]) -> list[DataFile]:
    """Writes ``rows`` to data files of a table, and commits nothing."""
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
