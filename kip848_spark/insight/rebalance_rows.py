"""Rows of `rebalances` from control records."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.insight import rebalance_fields as names
from kip848_spark.insight.array_functions import (
    first_from,
    is_run_start,
)
from kip848_spark.insight.causes import MAX_TRIGGERS, find_causes
from kip848_spark.insight.control_log import (
    SHARE,
    TARGET_EPOCH,
    TYPES,
    ControlLog,
)
from kip848_spark.insight.convergence import Membership, find_members
from kip848_spark.insight.generations import find_generations
from kip848_spark.insight.movements import (
    AssignedPlaces,
    EpisodeStretches,
    Stretches,
    count_moves,
    find_places,
    unowned_time,
)
from kip848_spark.insight.operation_shapes import DOWNGRADE, REPLACEMENT, UPGRADE
from kip848_spark.insight.rebalance_fields import REBALANCE_FIELDS
from kip848_spark.insight.rebalance_spans import Spans, Surroundings, find_spans
from kip848_spark.insight.waiting import find_revocations, find_waiting, is_revoking
from kip848_spark.state import kinds
from kip848_spark.wire.array_types import BoolArray, Int64Array
from kip848_spark.wire.columns import list_offsets
from kip848_spark.wire.tables import TIMESTAMP


class Found(NamedTuple):
    """Rows of `rebalances`, with the position where each begins, and for each group (by the number
    that `ControlLog.group` gives it) the position from which on its records are needed again."""

    rows: pa.Table
    begin: Int64Array
    group: Int64Array
    cut: Int64Array


def find_rebalances(log: ControlLog, around: Surroundings) -> Found:
    """The rebalances of all groups in a log."""
    if not log.count:
        none = np.zeros(0, np.int64)
        return Found(_table({}, 0), none, none, none)
    parts = [_epoch_rows(log, around), _generation_rows(log, around)]
    rows = pa.concat_tables([part.rows for part in parts])
    begin = np.concatenate([part.begin for part in parts])
    order = np.argsort(log.rows[begin], kind="stable")
    cut = np.minimum(parts[0].cut, parts[1].cut)
    begin = begin[order]
    return Found(rows.take(pa.array(order)), begin, log.group[begin], cut)


def _epoch_rows(log: ControlLog, around: Surroundings) -> Found:
    """Consumer, share and streams groups: from a record of the group epoch on."""
    membership = find_members(log)
    spans = find_spans(log, membership, around)
    begin = spans.begin
    count = len(begin)
    operation = log.operations.of[begin]
    first = log.operations.first[operation]
    known = log.offset[first] >= around.known_from[log.era[begin]]
    revoking = is_revoking(log, membership)
    causes = find_causes(log, membership, revoking, begin, known)
    followed = spans.following >= 0
    downgraded, generation = _downgrades(log, spans)
    superseded = followed | downgraded
    waiting = find_waiting(
        log,
        membership,
        find_revocations(log, membership, revoking),
        begin,
        np.where(followed, spans.following - 1, spans.end),
        spans.end,
        spans.end_time,
    )
    places = find_places(log, membership.current, membership.current_end)
    moves = _moves(log, membership, places, spans)
    share = log.type[begin] == SHARE
    unowned = _unowned(log, places, spans)
    stable = spans.stable >= 0
    closed = stable | (spans.deleted >= 0) | spans.is_cut | (spans.forced >= 0)
    outcome = np.select(
        [superseded, stable, spans.deleted >= 0, spans.is_cut], [1, 0, 2, 4], default=3
    )
    finish = np.select(
        [stable, spans.forced >= 0, spans.deleted >= 0],
        [
            log.offset[np.maximum(spans.stable, 0)],
            log.offset[np.maximum(spans.forced, 0)],
            log.offset[np.maximum(spans.deleted, 0)],
        ],
        default=around.gap[log.era[begin]],
    )
    started = log.time[begin]
    converged = log.time[np.maximum(spans.stable, 0)]
    columns = {
        "partition": log.take("partition", begin),
        "group_id": log.take("group_id", begin),
        "type": pa.array(TYPES).take(pa.array(log.type[begin])),
        "epoch": pa.array(membership.group_epoch[begin]),
        "started_at": _times(started),
        "converged_at": _times(converged, ~stable),
        "duration_ms": pa.array((converged - started) // 1000, mask=~stable),
        "causes": causes.causes,
        "likely": causes.likely,
        "joined": causes.joined,
        "left": causes.left,
        "trigger_members": causes.trigger_members,
        "members": pa.array(membership.members[_end_of_change(log, begin)]),
        "partitions_moved": pa.array(moves[0], mask=moves[0] < 0),
        "minimal_moves": pa.array(moves[1], mask=moves[1] < 0),
        "revoked": pa.array(moves[2], mask=moves[2] < 0),
        "blocked_members": waiting.blocked,
        "slowest_member": waiting.slowest,
        "slowest_ms": waiting.slowest_ms,
        "unowned_ms": pa.array(unowned, mask=share),
        "superseded_by": pa.array(
            np.where(followed, membership.group_epoch[spans.following], generation),
            mask=~superseded,
        ),
        "episode_id": _episode_ids(log, spans.episode),
        "outcome": pa.array(names.OUTCOMES).take(pa.array(outcome)),
        "complete": pa.array(known & (stable | (spans.deleted >= 0))),
        "evidence": _evidence(log, spans, causes.trigger, causes.trigger_of),
        "from_offset": pa.array(log.offset[begin]),
        "to_offset": pa.array(finish, mask=~closed),
    }
    cut = _find_cut(log, begin, spans.episode, ~closed)
    return Found(_table(columns, count), begin, log.group[begin], cut)


def _downgrades(log: ControlLog, spans: Spans) -> tuple[BoolArray, Int64Array]:
    """bool[rebalances]: a classic group continues the group before it is stable, and
    int64[rebalances]: its generation."""
    operation = log.operations.of[spans.deleted]
    found = (spans.deleted >= 0) & (log.operations.name[operation] == DOWNGRADE)
    generation = log.integer((kinds.CLASSIC,), "generation")
    return found, generation[log.operations.last[operation]]


def _end_of_change(log: ControlLog, begin: Int64Array) -> Int64Array:
    """int64[rebalances]: the position of the last record that belongs to the group epoch. In a
    downgrade, those behind the epoch end the group."""
    operation = log.operations.of[begin]
    downgrade = log.operations.name[operation] == DOWNGRADE
    return np.where(downgrade, begin, log.operations.last[operation])


def _find_cut(
    log: ControlLog, begin: Int64Array, episode: Int64Array, is_open: BoolArray
) -> Int64Array:
    """See `Found`. It is the beginning of a run, because later records may change how the run is
    split into operations. Another episode may end in the same run; then the cut is before it."""
    group = log.group[begin]
    cut = np.full(int(log.group.max(initial=-1)) + 1, log.count, np.int64)
    run = log.operations.run[log.operations.of[episode]]
    before = is_open
    while before.any():
        np.minimum.at(cut, group[before], run[before])
        before = (begin >= cut[group]) & (run < cut[group])
    return cut


def _generation_rows(log: ControlLog, around: Surroundings) -> Found:
    """Classic groups: each new generation."""
    found = find_generations(log)
    at, count = found.at, len(found.at)
    known = (found.before >= 0) & (log.era[found.before] == log.era[at])
    known |= log.offset[at] >= around.known_from[log.era[at]]
    offsets = pa.array(log.offset[at])
    times = _times(log.time[at])
    has_before = found.before >= 0
    evidence = np.where(has_before, log.offset[np.maximum(found.before, 0)], -1)
    pairs = np.stack([evidence, log.offset[at]], axis=1)
    columns = {
        "partition": log.take("partition", at),
        "group_id": log.take("group_id", at),
        "type": pa.array(["classic"]).take(pa.array(np.zeros(count, np.int64))),
        "epoch": pa.array(found.epoch),
        "started_at": times,
        "converged_at": times,
        "causes": found.causes,
        "joined": found.joined,
        "left": found.left,
        "trigger_members": found.trigger_members,
        "members": pa.array(found.members),
        "partitions_moved": pa.array(found.moved, mask=found.moved < 0),
        "minimal_moves": pa.array(found.minimal, mask=found.minimal < 0),
        "revoked": pa.array(found.revoked, mask=found.revoked < 0),
        "blocked_members": _empty_lists(count, pa.string()),
        "episode_id": _episode_ids(log, at),
        "outcome": pa.array([names.CONVERGED]).take(pa.array(np.zeros(count, np.int64))),
        "complete": pa.array(known),
        "evidence": pa.ListArray.from_arrays(
            list_offsets(1 + has_before), pa.array(pairs[pairs >= 0])
        ),
        "from_offset": offsets,
        "to_offset": offsets,
    }
    cut = np.full(int(log.group.max(initial=-1)) + 1, log.count, np.int64)
    return Found(_table(columns, count), at, log.group[at], cut)


def _before(log: ControlLog, begin: Int64Array) -> Int64Array:
    """int64[rebalances]: the position of the last record before the operation of each rebalance.
    What an upgrade copies from the classic group, and what a static member takes over from the one
    that it replaces, counts as before."""
    operation = log.operations.of[begin]
    copies = np.isin(log.operations.name[operation], (UPGRADE, REPLACEMENT))
    before = np.where(copies, begin, log.operations.first[operation]) - 1
    return np.asarray(np.maximum(before, log.life_first[log.life[begin]]), np.int64)


def _moves(
    log: ControlLog, membership: Membership, places: AssignedPlaces, spans: Spans
) -> tuple[Int64Array, Int64Array, Int64Array]:
    targets = np.flatnonzero((log.role == TARGET_EPOCH) & ~log.tombstone)
    begin = spans.begin
    after = first_from(targets, log.life, begin)
    after = np.where(after > spans.end, -1, after)
    empty = (spans.stable >= 0) & (after < 0)
    moves = count_moves(_before(log, begin), after, places, membership)
    share = log.type[begin] == SHARE
    moved, minimal, revoked = (np.where(share, -1, np.where(empty, 0, n)) for n in moves)
    return moved, minimal, revoked


def _unowned(log: ControlLog, places: AssignedPlaces, spans: Spans) -> Int64Array:
    episode, at = np.unique(spans.episode, return_index=True)
    first = log.operations.first[log.operations.of[episode]]
    followed = spans.following >= 0
    end = np.where(followed, spans.following - 1, spans.end)
    stop = np.where(followed, log.time[spans.following], spans.end_time)
    return unowned_time(
        log,
        places.assigned,
        EpisodeStretches(log.life[episode], first, spans.end[at], spans.end_time[at]),
        Stretches(spans.begin, end, stop),
    )


def _evidence(
    log: ControlLog, spans: Spans, trigger: Int64Array, trigger_of: Int64Array
) -> pa.Array:
    """list<int64>[rebalances]: the offsets of the first triggers, of the epoch, and of the last
    record, ascending."""
    order = np.argsort(trigger_of, kind="stable")
    owner, position = trigger_of[order], trigger[order]
    starts = np.flatnonzero(is_run_start(owner))
    rank = np.arange(len(owner)) - np.repeat(starts, np.diff(np.append(starts, len(owner))))
    wanted = rank < MAX_TRIGGERS
    index = np.arange(len(spans.begin))
    stable = spans.stable >= 0
    owners = np.concatenate([owner[wanted], index, index[stable]])
    offsets = log.offset[np.concatenate([position[wanted], spans.begin, spans.stable[stable]])]
    order = np.lexsort((offsets, owners))
    owners, offsets = owners[order], offsets[order]
    new = is_run_start(owners)
    new[1:] |= offsets[1:] != offsets[:-1]
    sizes = np.bincount(owners[new], minlength=len(index))
    return pa.ListArray.from_arrays(list_offsets(sizes), pa.array(offsets[new]))


def _episode_ids(log: ControlLog, episode: Int64Array) -> pa.Array:
    partition = log.take("partition", episode).cast(pa.string())
    return pc.binary_join_element_wise(
        partition, pa.array(log.offset[episode]).cast(pa.string()), "-"
    )


def _empty_lists(count: int, type_: pa.DataType) -> pa.Array:
    return pa.ListArray.from_arrays(list_offsets(np.zeros(count, np.int64)), pa.nulls(0, type_))


def _times(microseconds: Int64Array, mask: BoolArray | None = None) -> pa.Array:
    return pa.array(microseconds, mask=mask).cast(TIMESTAMP)


def _table(columns: dict[str, pa.Array], count: int) -> pa.Table:
    arrays = [
        columns[name].cast(type_) if name in columns else pa.nulls(count, type_)
        for name, type_ in REBALANCE_FIELDS.items()
    ]
    return pa.table(arrays, schema=pa.schema(list(REBALANCE_FIELDS.items())))
