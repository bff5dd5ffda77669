"""Check `state`: the rows of the state tables against the rows of the reference's replay."""

from __future__ import annotations

from collections.abc import Iterable

from kip848_spark.checks.results import ERROR, STATE, Finding, Tally, as_json
from kip848_spark.checks.state import (
    NOT_COMPARED,
    StateRow,
    identity_of,
    member_of,
    named_identity,
    named_values,
    values_of,
)

NOT_LOADED = "a broker would refuse to load the group"
OTHER_DIALECT = "records of a release before 4.0, which the reference does not replay"


def compare_rows(
    tally: Tally,
    table_rows: Iterable[StateRow],
    reference_rows: Iterable[StateRow],
    reason: str | None = None,
) -> None:
    """Compares the rows of one group, and counts each row that either side has. With ``reason``
    they cannot be compared, and all count as unverifiable for it."""
    table_rows, reference_rows = list(table_rows), list(reference_rows)
    distinct = set(table_rows)
    if (
        reason is None
        and len(distinct) == len(table_rows) == len(reference_rows)
        and distinct == set(reference_rows)
    ):
        tally.verified[STATE] += len(table_rows)
        return
    missing = {identity_of(row): row for row in reference_rows}
    for row in sorted(table_rows, key=repr):  # so that of duplicates always the same one is matched
        expected = missing.pop(identity_of(row), None)
        if reason is not None:
            tally.add_unverifiable(STATE, reason)
        elif expected is not None and _equal(values_of(row), values_of(expected)):
            tally.add_verified(STATE)
        else:
            _add_difference(tally, row, expected, row)
    for row in missing.values():
        if reason is not None:
            tally.add_unverifiable(STATE, reason)
        else:
            _add_difference(tally, row, row, None)


def _equal(values: StateRow, expected: StateRow) -> bool:
    """Whether the values of a row are those of the reference, as far as it knows them."""
    return values == expected or all(
        theirs is NOT_COMPARED or ours == theirs
        for ours, theirs in zip(values, expected, strict=True)
    )


def _add_difference(
    tally: Tally, at: StateRow, expected: StateRow | None, found: StateRow | None
) -> None:
    tally.disagreed[STATE] += 1
    tally.findings.append(
        Finding(
            check=STATE,
            reason=_reason(expected, found),
            severity=ERROR,
            group_id=at[1],
            member_id=member_of(at),
            partition=None,
            offset=None,
            timestamp=None,
            expected=_as_json(at, expected),
            recorded=_as_json(at, found),
        )
    )


def _as_json(at: StateRow, row: StateRow | None) -> str:
    """A row of a state table as JSON; ``row`` is null if there is no such row."""
    values = None if row is None else named_values(row)
    return as_json({"table": at[0], "key": named_identity(at), "row": values})


def _reason(expected: StateRow | None, found: StateRow | None) -> str:
    if found is None:
        return "row_missing"
    return "row_without_record" if expected is None else "row_differs"
