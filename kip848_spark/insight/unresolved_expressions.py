"""Members of consumer groups that waited until the coordinator had resolved their regular
expression.

The coordinator raises the epoch when it has resolved an expression, in an operation of its own
(docs/kafka-facts.md#regular-expressions). So the record of the member that joined with it, or took
it, belongs to no rebalance. The functions find the rebalance for which the member waited.

Only records that are still in effect are used, so the result does not depend on how a log is split.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.insight.array_functions import last_before
from kip848_spark.insight.control_log import (
    CONSUMER,
    CURRENT,
    EPOCH,
    MEMBER,
    REGEX,
    ControlLog,
    last_of_member,
)
from kip848_spark.state import kinds
from kip848_spark.state.codes import factorize, factorize_pairs, next_rows
from kip848_spark.wire.array_types import BoolArray, Int64Array


class Waits(NamedTuple):
    """Records of members, and the rebalances for which the members waited."""

    at: Int64Array
    """int64[waits]: the positions of the records."""
    rebalance: Int64Array
    """int64[waits]: the index of the rebalance of each."""


def joined_before(
    log: ControlLog, resolves: BoolArray, rebalance: Int64Array, epochs: Int64Array
) -> Waits:
    """Members that joined with a regular expression, by the position of each member's first current
    assignment. ``resolves`` (bool[n]): records of regular expressions that belong to a rebalance;
    ``rebalance``: int64[n]; ``epochs``: the positions at which the rebalances begin."""
    nothing = Waits(np.zeros(0, np.int64), np.zeros(0, np.int64))
    resolving = np.unique(rebalance[resolves])
    metadata = np.flatnonzero((log.role == MEMBER) & (log.type == CONSUMER))
    if not (len(resolving) and len(metadata)):
        return nothing
    current, end = log.next_of_member(np.flatnonzero(log.role == CURRENT))
    previous = log.integer((kinds.CURRENT,), "previous_member_epoch")
    fresh = (previous[current] == 0) & ~log.tombstone[current]
    current, end = current[fresh], end[fresh]
    values = np.flatnonzero((log.role == EPOCH) & ~log.tombstone)
    number = np.searchsorted(epochs[resolving], current)
    at = epochs[resolving[np.minimum(number, len(resolving) - 1)]]
    before = last_before(values, log.life, at - 1)
    known = last_of_member(log, metadata, current, at)
    regex = log.field(kinds.MEMBER, "subscribed_topic_regex", metadata).fill_null("")
    by_regex = np.asarray(pc.not_equal(regex, ""))[known]
    waits = (number < len(resolving)) & (at < end) & (log.life[at] == log.life[current])
    waits &= (known >= 0) & by_regex & (before >= 0) & (current > before)
    # The records of an operation have one time: a member that joined at that of the last epoch has
    # raised it, and is one of its joins.
    waits &= log.stamp[current] != log.stamp[before]
    return Waits(current[waits], resolving[number[waits]])


def changed_before(
    log: ControlLog,
    resolves: BoolArray,
    rebalance: Int64Array,
    epochs: Int64Array,
    joined: Waits,
    known: BoolArray,
) -> Waits:
    """Members that took another regular expression after the epoch before, by the position of the
    record that says so. The expression is resolved for the first time: of any other, the member's
    own operation raises the epoch. ``joined`` are those of `joined_before`, which have not changed
    anything; ``known`` (bool[rebalances]): whether the state before is known."""
    at = np.flatnonzero((log.role == MEMBER) & (log.type == CONSUMER))
    if not (resolves.any() and len(at)):
        return Waits(np.zeros(0, np.int64), np.zeros(0, np.int64))
    values = np.flatnonzero((log.role == EPOCH) & ~log.tombstone)
    at, end = log.next_of_member(at)
    alone = ~log.tombstone[at] & (rebalance[at] < 0)
    at, end = at[alone], end[alone]
    code = np.full(log.count, -1, np.int64)
    regexes = log.positions(REGEX)
    expressions = pa.concat_arrays(
        [
            log.field(kinds.MEMBER, "subscribed_topic_regex", at).fill_null(""),
            log.take("regular_expression", regexes),
        ]
    )
    both = np.concatenate([at, regexes])
    code[both] = factorize_pairs(log.life[both], factorize(expressions))
    first = np.flatnonzero(resolves & known[rebalance] & _is_first(log, regexes, code))
    resolved = next_rows(code, first, log.count)[at]
    waits = resolved < end
    at, resolved = at[waits], resolved[waits]
    number = rebalance[resolved]
    before = last_before(values, log.life, epochs[number] - 1)
    waits = (before >= 0) & (at > before) & (log.stamp[at] != log.stamp[before])
    width = len(epochs) + 1
    of_joined = log.member[joined.at] * width + joined.rebalance
    waits &= ~np.isin(log.member[at] * width + number, of_joined)
    return Waits(at[waits], number[waits])


def _is_first(log: ControlLog, regexes: Int64Array, code: Int64Array) -> BoolArray:
    """bool[n]: the records of expressions that are not resolved before. ``regexes`` are the
    positions of all records of expressions, ``code`` (int64[n]) the expression of each."""
    order = regexes[np.argsort(code[regexes], kind="stable")]
    again = np.zeros(len(order), bool)
    again[1:] = (code[order[1:]] == code[order[:-1]]) & ~log.tombstone[order[:-1]]
    found = np.zeros(log.count, bool)
    found[order[~again]] = True
    return found & ~log.tombstone
