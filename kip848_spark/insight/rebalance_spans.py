"""From where to where the rebalances of consumer, share and streams groups go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kip848_spark.insight.array_functions import first_from, is_run_start
from kip848_spark.insight.control_log import EPOCH, ControlLog
from kip848_spark.insight.convergence import Membership
from kip848_spark.state.fold import order_keys
from kip848_spark.wire.array_types import BoolArray, Int64Array

MAX_EPOCHS = 1_000
"""An episode has at most this many rebalances; see `rebalances.RebalanceFold`."""
MAX_RECORDS = 1 << 17
"""An episode has at most about this many control records of its group."""


@dataclass(frozen=True)
class Surroundings:
    """What is known beside the control records. An *era* is a part of a partition without a gap:
    a gap ends it, or it goes on. Eras are numbered in the order of partitions and offsets."""

    bounds: Int64Array
    """int64[eras - 1]: the last key of `state.fold.order_keys` of each era but the last one."""
    gap: Int64Array
    """int64[eras]: the offset of the gap that ends it; -1 if it goes on."""
    end_time: Int64Array
    """int64[eras]: the time (us) of the last record before the gap; the newest time of the
    partition if it goes on."""
    known_from: Int64Array
    """int64[eras]: the offset from which on the state is known."""

    def era(self, order_key: Int64Array) -> Int64Array:
        """int64[n]: the era of each record."""
        return np.searchsorted(self.bounds, order_key)


class Eras(NamedTuple):
    """The eras of one partition: ``gap``, ``end_time`` and ``known_from`` as in `Surroundings`."""

    gap: list[int]
    end_time: list[int]
    known_from: list[int]


def surroundings(partitions: Sequence[Eras]) -> Surroundings:
    """The eras of ``partitions`` together."""
    bounds = []
    for part, eras in enumerate(partitions):
        last = np.array([*([-1] if part else []), *eras.gap[:-1]], np.int64)
        bounds.append(order_keys(np.full(len(last), part), last))
    columns = (
        np.array([value for eras in partitions for value in eras[column]], np.int64)
        for column in range(3)
    )
    return Surroundings(np.concatenate(bounds), *columns)


class Spans(NamedTuple):
    """From where to where the rebalances go: int64[rebalances] each."""

    begin: Int64Array
    """The position of the record of the group epoch."""
    stable: Int64Array
    """The position of the last record of the operation after which the group is stable; -1."""
    following: Int64Array
    """The position of the next group epoch before that; -1 without one."""
    deleted: Int64Array
    """The position of the record that ends the group before it is stable; -1."""
    is_cut: BoolArray
    """bool[rebalances]: a gap comes before any of these."""
    forced: Int64Array
    """The position where the episode is closed because it is too long; -1."""
    end: Int64Array
    """The position of the last record."""
    end_time: Int64Array
    """The time (us) of the end; of the last known record if there is none."""
    episode: Int64Array
    """The position of the first rebalance of the episode."""


def find_spans(log: ControlLog, membership: Membership, around: Surroundings) -> Spans:
    epoch = membership.group_epoch
    values = np.flatnonzero((log.role == EPOCH) & ~log.tombstone)
    before = np.append(-1, epoch[values[:-1]])[: len(values)]
    new = is_run_start(log.life[values]) | (epoch[values] != before)
    begin = values[new & ~log.is_state[values]]
    life, era = log.life[begin], log.era[begin]

    stable = membership.stable_ends()
    stable = stable[~((log.role[stable] == EPOCH) & log.tombstone[stable])]
    stable = first_from(stable, log.life, log.operations.last[log.operations.of[begin]])
    stable = np.where((stable >= 0) & (log.era[stable] == era), stable, -1)

    following = np.append(begin[1:], -1)[: len(begin)]
    following = np.where(
        (following >= 0) & (log.life[following] == life) & (log.era[following] == era),
        following,
        -1,
    )
    following = np.where((stable >= 0) & (following > stable), -1, following)

    last = log.life_last[life]
    tombstone = (log.role[last] == EPOCH) & log.tombstone[last]
    replaced = np.append(is_run_start(log.group)[1:], True)[last]  # the group has no later life
    deleted = np.where(tombstone, last, np.where(~replaced, last + 1, -1))
    deleted = np.where((stable < 0) & (deleted >= 0) & (log.era[deleted] == era), deleted, -1)
    is_cut = (stable < 0) & (deleted < 0) & (around.gap[era] >= 0)

    eras = len(around.gap)
    end = np.searchsorted(log.life * eras + log.era, life * eras + era, "right") - 1
    end = np.where(stable >= 0, stable, end)
    end_time = np.select(
        [stable >= 0, deleted >= 0],
        [log.time[np.maximum(stable, 0)], log.time[np.maximum(deleted, 0)]],
        default=around.end_time[era],
    )
    starts = is_run_start(life)
    starts[1:] |= (era[1:] != era[:-1]) | (stable[1:] != stable[:-1])
    episode = begin[np.maximum.accumulate(np.where(starts, np.arange(len(begin)), 0))]
    spans = Spans(
        begin,
        stable,
        following,
        deleted,
        is_cut,
        np.full(len(begin), -1, np.int64),
        end,
        end_time,
        episode,
    )
    _close_long_episodes(log, spans)
    return spans


def _close_long_episodes(log: ControlLog, spans: Spans) -> None:
    """Closes episodes that have too many rebalances or records, and begins new ones. Changes
    ``spans`` in place."""
    starts = np.flatnonzero(is_run_start(spans.episode))
    stops = np.append(starts[1:], len(spans.begin))[: len(starts)]
    long = spans.end[stops - 1] - spans.begin[starts] >= MAX_RECORDS
    first = log.operations.first
    for start, stop in zip(
        *(bounds[long | (stops - starts > MAX_EPOCHS)].tolist() for bounds in (starts, stops)),
        strict=True,
    ):
        at = start
        while at < stop:
            begin = int(spans.begin[at])
            after = int(np.searchsorted(first, begin + MAX_RECORDS))
            cut = int(first[after]) if after < len(first) else log.count
            if at + MAX_EPOCHS < stop:
                next_epoch = log.operations.of[spans.begin[at + MAX_EPOCHS]]
                cut = min(cut, int(first[next_epoch]))
            if cut > spans.end[at]:
                spans.episode[at:stop] = begin
                break
            rest = at + int(np.searchsorted(spans.begin[at:stop], cut))
            spans.episode[at:rest] = begin
            spans.forced[at:rest] = cut
            spans.stable[at:rest] = spans.deleted[at:rest] = -1
            spans.is_cut[at:rest] = False
            spans.end[at:rest] = cut - 1
            spans.end_time[at:rest] = log.time[cut]
            following = spans.following[at:rest]
            following[first[log.operations.of[following]] > cut] = -1
            at = rest
