"""Check 1: the rows of the state tables against those that the reference comes to."""

from __future__ import annotations

from collections.abc import Iterable

from kip848_spark.checks.results import ERROR, STATE, Finding, Tally, as_json
from kip848_spark.checks.state import (
    UNSAID,
    StateRow,
    identity_of,
    member_of,
    named_identity,
    named_said,
    said_of,
)

NOT_LOADED = "a broker would not load the group"
OTHER_DIALECT = "records of a release before 4.0: not replayed by the reference"
OTHER_TYPE = "a share or streams group: not replayed by the reference"
_EXPLANATION = (
    "The table {} and the reference's replay of the same records do not say the same of this row: "
    "one of the two programs is wrong; please report it with these records."
)


def agree(
    tally: Tally, ours: Iterable[StateRow], theirs: Iterable[StateRow], reason: str | None = None
) -> None:
    """Counts the rows that either side has. ``reason``: why they can't be compared, if so."""
    ours, theirs = list(ours), list(theirs)
    same = set(ours)
    if reason is None and len(same) == len(ours) == len(theirs) and same == set(theirs):
        tally.verified[STATE] += len(ours)
        return
    wanted = {identity_of(row): row for row in theirs}
    for row in sorted(ours, key=repr):  # of two rows of one identity, the same one finds None
        told = wanted.pop(identity_of(row), None)
        if reason is not None:
            tally.unknown(STATE, reason)
        elif told is not None and _same(said_of(row), said_of(told)):
            tally.right(STATE)
        else:
            _wrong(tally, row, told, row)
    for row in wanted.values():
        if reason is not None:
            tally.unknown(STATE, reason)
        else:
            _wrong(tally, row, row, None)


def _same(row: StateRow, told: StateRow) -> bool:
    """Whether a row says what the reference says of it, which may be less."""
    return row == told or all(
        theirs is UNSAID or ours == theirs for ours, theirs in zip(row, told, strict=True)
    )


def _wrong(tally: Tally, at: StateRow, told: StateRow | None, found: StateRow | None) -> None:
    tally.disagreed[STATE] += 1
    tally.findings.append(
        Finding(
            check=STATE,
            severity=ERROR,
            group_id=at[1],
            member_id=member_of(at),
            partition=None,
            offset=None,
            timestamp=None,
            expected=_side(at, told),
            recorded=_side(at, found),
            explanation=_EXPLANATION.format(at[0]),
        )
    )


def _side(at: StateRow, row: StateRow | None) -> str:
    """A row of a state table, or its absence, as JSON."""
    return as_json({"key": named_identity(at), "row": None if row is None else named_said(row)})
