"""Rebalances of classic groups: the differences between one generation and the one before it.

A classic group is written when a rebalance is complete, so the log does not show when it
started."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.insight import rebalance_fields as names
from kip848_spark.insight.array_functions import set_fingerprints, string_lists, sum_by_code
from kip848_spark.insight.causes import cause_lists
from kip848_spark.insight.control_log import CLASSIC, MEMBER, ControlLog
from kip848_spark.insight.operation_shapes import DOWNGRADE
from kip848_spark.state import kinds
from kip848_spark.state.codes import factorize, factorize_pairs
from kip848_spark.state.control_state import parent_rows
from kip848_spark.wire.array_types import BoolArray, Int64Array


class Generations(NamedTuple):
    """Columns of `rebalances` for the generations that begin at ``at``."""

    at: Int64Array
    """The positions of the records."""
    before: Int64Array
    """The position of the generation before; -1 without one."""
    epoch: Int64Array
    causes: pa.Array
    joined: pa.Array
    left: pa.Array
    trigger_members: pa.Array
    members: Int64Array
    moved: Int64Array
    minimal: Int64Array
    revoked: Int64Array


class _Members(NamedTuple):
    """The members of generations: one element for each member of each generation."""

    generation: Int64Array
    """The index of the generation, ascending."""
    member: Int64Array
    """Distinct for each group and member id."""
    identity: Int64Array
    """The instance id, or else the member id: distinct for each group and identity."""
    names: pa.Array
    subscription: Int64Array
    assignments: pa.Array
    """The assigned partitions by topic."""


def find_generations(log: ControlLog) -> Generations:
    """The generations of classic groups in a log.

    A generation of 0 without members only creates the group. A record that repeats a generation (a
    static member was replaced) is no rebalance."""
    values = np.flatnonzero((log.role == CLASSIC) & ~log.tombstone)
    generation = log.integer((kinds.CLASSIC,), "generation", 0)[values]
    follows = np.zeros(len(values), bool)
    follows[1:] = (values[1:] == values[:-1] + 1) & (
        log.group[values[1:]] == log.group[values[:-1]]
    )
    previous = np.where(follows, np.append(0, generation[:-1]), 0)
    downgraded = log.operations.name[log.operations.of[values]] == DOWNGRADE
    is_row = (generation != previous) & (generation > 0) & ~log.is_state[values]
    rows = np.flatnonzero(is_row)
    members = _find_members(log, values)
    new, gone, back = _differences(members, follows)
    count = len(values)

    def flag(found: BoolArray, index: Int64Array) -> BoolArray:
        flags = np.zeros(count, bool)
        flags[index[found]] = True
        return flags

    joined = flag(new & ~back, members.generation)
    replaced = flag(new & back, members.generation)
    back_later = _is_back(members, follows)
    left = flag(gone & ~back_later, members.generation + 1)[:count] if count else joined
    same = ~(joined | replaced | left)
    subscribed = _subscription_changed(members, follows, count)
    protocol = factorize(log.field(kinds.CLASSIC, "protocol", values))
    assignor = follows & (protocol != np.append(-1, protocol[:-1])[:count])
    flags = {
        names.JOINED: joined,
        names.REPLACED: replaced,
        names.LEFT: left,
        names.SUBSCRIPTION: same & subscribed,
        names.ASSIGNOR: same & assignor & ~subscribed,
        names.REJOINED: same & ~subscribed & ~assignor,
    }
    flags = {cause: found & ~downgraded for cause, found in flags.items()}
    flags[names.DOWNGRADED] = downgraded
    joined_at = np.flatnonzero(new & ~downgraded[members.generation])
    left_at = np.flatnonzero(gone)
    removed, removed_by = _removed_members(log, values, downgraded, members)
    left_names = pa.concat_arrays([members.names.take(pa.array(left_at)), removed])
    left_by = np.concatenate([members.generation[left_at] + 1, removed_by])
    joined_names = members.names.take(pa.array(joined_at))
    joined_by = members.generation[joined_at]
    moved, minimal, revoked = _moves(members, follows, count)
    place = pa.array(rows)

    return Generations(
        values[rows],
        np.where(follows[rows], values[np.maximum(rows - 1, 0)], -1),
        generation[rows],
        cause_lists({cause: found[rows] for cause, found in flags.items()}, len(rows)),
        string_lists(joined_by, joined_names, count).take(place),
        string_lists(left_by, left_names, count).take(place),
        string_lists(
            np.concatenate([joined_by, left_by]),
            pa.concat_arrays([joined_names, left_names]),
            count,
        ).take(place),
        np.bincount(members.generation, minlength=count)[rows],
        moved[rows],
        minimal[rows],
        revoked[rows],
    )


def _removed_members(
    log: ControlLog, values: Int64Array, downgraded: BoolArray, members: _Members
) -> tuple[pa.Array, Int64Array]:
    """The members of consumer groups that are not in the classic group that follows: their names,
    and the index of that group's generation."""
    generations = np.flatnonzero(downgraded)
    operation = log.operations.of[values[generations]]
    gone = np.flatnonzero((log.role == MEMBER) & log.tombstone)
    gone = gone[np.isin(log.operations.of[gone], operation)]
    generation = generations[np.searchsorted(operation, log.operations.of[gone])]
    names_ = log.take("member_id", gone)
    code = factorize(pa.concat_arrays([names_, members.names]))
    width = int(code.max(initial=0)) + 1
    still = members.generation * width + code[len(gone) :]
    wanted = ~np.isin(generation * width + code[: len(gone)], still)
    return names_.filter(pa.array(wanted)), generation[wanted]


def _find_members(log: ControlLog, values: Int64Array) -> _Members:
    lists = log.field(kinds.CLASSIC, "members", values)
    generation = parent_rows(lists)
    each = pc.list_flatten(lists)
    ids = pc.struct_field(each, "member_id")
    instances = pc.struct_field(each, "group_instance_id")
    subscription = pc.struct_field(each, "consumer_subscription")
    assignment = pc.struct_field(each, "consumer_assignment")
    group = log.group[values][generation]
    member = factorize(pc.binary_join_element_wise("m", ids, ""))
    either = pc.coalesce(
        pc.binary_join_element_wise("i", instances, ""), pc.binary_join_element_wise("m", ids, "")
    )
    return _Members(
        generation,
        factorize_pairs(group, member),
        factorize_pairs(group, factorize(either)),
        ids,
        set_fingerprints(pc.struct_field(subscription, "topics")),
        pc.struct_field(assignment, "assigned_partitions"),
    )


def _keys(members: _Members, code: Int64Array, shift: int = 0) -> Int64Array:
    return (members.generation + shift) * (int(code.max(initial=0)) + 1) + code


def _differences(members: _Members, follows: BoolArray) -> tuple[BoolArray, BoolArray, BoolArray]:
    """For each member of each generation: whether it is new, whether it is gone in the next
    generation, and whether its identity was there before."""
    count = len(follows)
    next_follows = np.append(follows[1:], False)[:count]
    by_member, by_identity = _keys(members, members.member), _keys(members, members.identity)
    before = _keys(members, members.member, 1)[next_follows[members.generation]]
    new = ~np.isin(by_member, before)
    identity_before = _keys(members, members.identity, 1)[next_follows[members.generation]]
    back = np.isin(by_identity, identity_before)
    gone = next_follows[members.generation] & ~np.isin(_keys(members, members.member, 1), by_member)
    return new, gone, back


def _is_back(members: _Members, follows: BoolArray) -> BoolArray:
    """Whether the next generation has a member of the same identity."""
    return np.isin(_keys(members, members.identity, 1), _keys(members, members.identity))


def _subscription_changed(members: _Members, follows: BoolArray, count: int) -> BoolArray:
    """bool[generations]: a member that was there before has another subscription."""
    key = _keys(members, members.member)
    before = _keys(members, members.member, 1)
    order = np.argsort(before, kind="stable")
    spot = np.minimum(np.searchsorted(before[order], key), max(len(order) - 1, 0))
    changed = np.zeros(count, bool)
    if len(order):
        same = before[order[spot]] == key
        other = members.subscription[order[spot]] != members.subscription
        changed[members.generation[same & other]] = True
    return changed & follows


def _moves(
    members: _Members, follows: BoolArray, count: int
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """int64[generations] each: partitions moved, the fewest that had to (see
    `movements.count_moves`), and partitions that a member that stayed had to give up. A static
    member that was replaced is the same owner. All are -1 for a first generation."""
    topics = pc.list_flatten(members.assignments)
    of_topic = parent_rows(members.assignments)
    partitions = pc.struct_field(topics, "partitions")
    parent = parent_rows(partitions)
    number = np.asarray(pc.list_flatten(partitions).fill_null(0).to_numpy(zero_copy_only=False))
    topic = factorize(pc.struct_field(topics, "topic"))[parent]
    element = of_topic[parent]
    place = topic * (int(number.max(initial=0)) + 1) + number
    generation, owner = members.generation[element], members.identity[element]
    width = int(place.max(initial=0)) + 1
    people = int(members.identity.max(initial=0)) + 1
    next_follows = np.append(follows[1:], False)[:count]

    was = np.flatnonzero(next_follows[generation])
    after = generation[was] + 1
    now_key = generation * width + place
    order = np.argsort(now_key, kind="stable")
    spot = np.minimum(
        np.searchsorted(now_key[order], after * width + place[was]), max(len(order) - 1, 0)
    )
    has = now_key[order[spot]] == after * width + place[was] if len(order) else np.zeros(0, bool)
    keeps = has & (owner[order[spot]] == owner[was]) if len(order) else has
    present = np.unique(members.generation * people + members.identity)
    stays = np.isin(after * people + owner[was], present)
    moved = np.bincount(after[has & ~keeps], minlength=count)
    revoked = np.bincount(after[stays & ~keeps], minlength=count)
    orphaned = np.bincount(after[has & ~stays], minlength=count)
    stayers = has & stays
    had_key, had = np.unique(after[stayers] * people + owner[was][stayers], return_counts=True)
    gets, share = np.unique(generation * people + owner, return_counts=True)
    at = np.minimum(np.searchsorted(gets, had_key), max(len(gets) - 1, 0))
    size = np.where(gets[at] == had_key, share[at], 0) if len(gets) else 0 * had
    excess = sum_by_code(np.maximum(had - size, 0), had_key // people, count)
    return (
        np.where(follows, moved[:count], -1),
        np.where(follows, orphaned[:count] + excess, -1),
        np.where(follows, revoked[:count], -1),
    )
