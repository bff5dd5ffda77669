"""Rules about the order of records that hold in groups of every type, and their findings."""

from __future__ import annotations

from collections.abc import Iterable

from kip848_spark.checks.log_entries import LogEntry
from kip848_spark.checks.operations import DELETE, INVALID_ORDER, OperationPart
from kip848_spark.checks.results import ORDER, WARNING, Tally


def report_disorder(tally: Tally, part: OperationPart, of_member: Iterable[str]) -> bool:
    """Adds a finding if the records of a part come in no valid order, if one is duplicated, or if
    the tombstones of key types ``of_member`` in a row are not those of one member. Returns whether
    there is one."""
    if part.name == INVALID_ORDER:
        report_invalid_order(tally, part)
    elif (duplicate := _duplicate(part)) is not None:
        tally.add_disagreement(
            ORDER,
            "duplicate_record",
            duplicate,
            "each record of an operation once",
            _names(part),
        )
    elif part.name != DELETE and not _of_one_member(part, of_member):
        report_mixed_tombstones(tally, part)
    else:
        return False
    return True


def report_invalid_order(tally: Tally, part: OperationPart) -> None:
    """Adds the finding that no coordinator writes these records in this order."""
    tally.add_disagreement(
        ORDER,
        "invalid_order",
        part.entries[0],
        "an order that a coordinator writes",
        _names(part),
        member="",
    )


def report_mixed_tombstones(tally: Tally, part: OperationPart) -> None:
    """Adds the finding that the tombstones of a part belong to different members."""
    tally.add_disagreement(
        ORDER,
        "mixed_tombstones",
        part.entries[0],
        "three tombstones of one member",
        [(_name(entry), entry.member) for entry in part.entries],
        member="",
    )


def report_unknown_member(tally: Tally, entry: LogEntry) -> None:
    """Adds the finding that a member has an assignment, but no record by which it joined."""
    tally.add_disagreement(
        ORDER,
        "unknown_member",
        entry,
        "an earlier record by which the member joined",
        entry.record,
    )


def report_orphan_tombstone(tally: Tally, entry: LogEntry) -> None:
    """Adds the finding that a tombstone deletes a record that does not exist."""
    tally.add_disagreement(
        ORDER,
        "orphan_tombstone",
        entry,
        "a record to delete",
        entry.record,
        severity=WARNING,
    )


def report_no_change(tally: Tally, entry: LogEntry) -> None:
    """Adds the finding that a record has the value that was there before."""
    tally.add_disagreement(ORDER, "no_change", entry, "a change", entry.record, severity=WARNING)


def report_repeated_partition(tally: Tally, entry: LogEntry) -> None:
    """Adds the finding that a record lists a partition, or a topic, more than once."""
    tally.add_disagreement(ORDER, "repeated_partition", entry, "each partition once", entry.record)


def repeats_partition(entry: LogEntry, fields: Iterable[str], row_id: str = "topicId") -> bool:
    """Whether one of the record's fields lists a row or a partition twice. A row is identified by
    its field ``row_id``."""
    value = entry.value or {}
    for field in fields:
        rows = value.get(field) or ()
        if len(rows) > 1 and len(rows) > len({row[row_id] for row in rows}):
            return True
        if any(len(row["partitions"]) > len(set(row["partitions"])) for row in rows):
            return True
    return False


def _name(entry: LogEntry) -> str:
    return f"{entry.kind}{'' if entry.value is not None else ' (tombstone)'}"


def _names(part: OperationPart) -> list[str]:
    return [_name(entry) for entry in part.entries]


def _duplicate(part: OperationPart) -> LogEntry | None:
    keys = set()
    for entry in part.entries:
        # The end of a share group writes its share state first, and deletes it later.
        key = (entry.key, entry.value is None)
        if key in keys:
            return entry
        keys.add(key)
    return None


def _of_one_member(part: OperationPart, of_member: Iterable[str]) -> bool:
    gone = [entry for entry in part.entries if entry.value is None and entry.kind in of_member]
    return all(
        len({entry.member for entry in gone[at : at + 3]}) == 1
        for at in range(0, len(gone) // 3 * 3, 3)
    )
