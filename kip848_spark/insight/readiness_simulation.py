"""What the broker's assignors would give to a group as it is now: its members, subscriptions and
assignment, and its topics.

The assignors are those of the reference coordinator (`kip848_spark.coordinator.assignors`). The
simulation keeps the member ids of now. Members get new ids when they move, and then `range`, which
sorts by id, may give the same ranges to other members."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.coordinator.assignors import ASSIGNORS, AssignmentSpec, MemberSpec
from kip848_spark.coordinator.javahash import copied_size, string_order

PartitionsByTopic = dict[str, list[int]]
"""Topic -> partitions."""

SIMULATION_FIELDS: dict[str, pa.DataType] = {
    "partitions": pa.int64(),
    "uniform_moves": pa.int64(),
    "uniform_rounds": pa.int64(),
    "range_moves": pa.int64(),
    "range_rounds": pa.int64(),
    "assumed_topics": pa.list_(pa.string()),
}
"""``partitions``: those of the group's topics. ``…_moves``: partitions that another member would
own. ``…_rounds``: heartbeats of each member until all of them own their targets.
``assumed_topics``: topics whose number of partitions is taken from the assignment, because the lake
does not have it."""
_NAMESPACE = uuid.UUID("5b1a6a0e-3b0f-4f0c-9d3f-6f1f1f0c8480")
_MOST_ROUNDS = 100
MOST_PARTITIONS = 200_000
"""The number of partitions that are simulated, if a caller does not say it."""


@dataclass(frozen=True)
class ClassicMemberState:
    """A member: the topics it subscribes to, and the partitions that it owns."""

    member_id: str
    instance_id: str | None
    topics: tuple[str, ...]
    owned: Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class TopicSize:
    """A topic's id (base64, as Kafka prints it) and number of partitions."""

    topic_id: str
    partitions: int
    assumed: bool = False


@dataclass(frozen=True)
class Simulated:
    """The result for one assignor. ``moves`` are the partitions that another member would own."""

    assignor: str
    assignment: Mapping[str, PartitionsByTopic]
    moves: int
    rounds: int


def simulate_group(
    members: Sequence[ClassicMemberState], sizes: Mapping[str, TopicSize], assignor: str
) -> Simulated:
    """The assignment by ``assignor`` (uniform or range). No two ``members`` own the same partition.
    Topics that are not in ``sizes`` do not exist. Raises KeyError for another assignor."""
    names = {size.topic_id: name for name, size in sizes.items()}
    by_id = {member.member_id: member for member in members}
    specs = []
    for member_id in string_order(list(by_id)):
        member = by_id[member_id]
        wanted = string_order(sorted(set(member.topics)), copied_size(len(set(member.topics))))
        specs.append(
            MemberSpec(
                member_id,
                member.instance_id,
                {sizes[topic].topic_id: None for topic in wanted if topic in sizes},
                {
                    sizes[topic].topic_id: dict.fromkeys(numbers)
                    for topic, numbers in member.owned.items()
                    if topic in sizes and numbers
                },
            )
        )
    counts = {
        sizes[t].topic_id: sizes[t].partitions for m in members for t in m.topics if t in sizes
    }
    same = len({frozenset(member.topics) for member in members}) <= 1
    result = ASSIGNORS[assignor](AssignmentSpec(tuple(specs), counts, same))
    given = {
        member_id: {names[topic]: sorted(numbers) for topic, numbers in target.items() if numbers}
        for member_id, target in result.items()
    }
    now = {m.member_id: _places(m.owned) for m in members}
    then = {member_id: _places(target) for member_id, target in given.items()}
    moves = sum(len(owned - then.get(member_id, set())) for member_id, owned in now.items())
    return Simulated(assignor, given, moves, _rounds(now, then))


def _places(owned: Mapping[str, Sequence[int]]) -> set[tuple[str, int]]:
    return {(topic, number) for topic, numbers in owned.items() for number in numbers}


def _rounds(
    now: Mapping[str, set[tuple[str, int]]], then: Mapping[str, set[tuple[str, int]]]
) -> int:
    """Heartbeats of each member until every member owns its target. A member first gives up what it
    must, says so in its next heartbeat, and gets only what is free (KIP-848 "Reconciliation")."""
    owned = {member_id: set(places) for member_id, places in now.items()}
    revoking: dict[str, set[tuple[str, int]]] = {}
    holder = {place: member_id for member_id, places in owned.items() for place in places}
    for number in range(1, _MOST_ROUNDS):
        settled = True
        for member_id in sorted(owned):
            for place in revoking.pop(member_id, ()):
                del holder[place]
            target = then.get(member_id, set())
            lost = owned[member_id] - target
            if lost:
                owned[member_id] -= lost
                revoking[member_id] = lost
                settled = False
                continue
            free = {place for place in target - owned[member_id] if place not in holder}
            owned[member_id] |= free
            holder.update(dict.fromkeys(free, member_id))
            settled = settled and owned[member_id] == target
        if settled:
            return number
    return _MOST_ROUNDS


def simulate_groups(
    group_ids: Iterable[str],
    members: pa.Table,
    assignments: pa.Table,
    topics: pa.Table | None,
    most: int = MOST_PARTITIONS,
) -> pa.Table:
    """Both assignors for each of the `simulated_groups`: ``group_id`` and the columns
    `SIMULATION_FIELDS`.

    ``members``, ``assignments`` and ``topics`` are the tables of these names; ``topics`` is None
    where the lake does not have it."""
    rows = []
    for group_id, found, sizes in simulated_groups(
        group_ids, members, assignments, known_sizes(topics), most
    ):
        uniform, by_range = (simulate_group(found, sizes, name) for name in ("uniform", "range"))
        rows.append(
            {
                "group_id": group_id,
                "partitions": sum(size.partitions for size in sizes.values()),
                "uniform_moves": uniform.moves,
                "uniform_rounds": uniform.rounds,
                "range_moves": by_range.moves,
                "range_rounds": by_range.rounds,
                "assumed_topics": sorted(t for t, size in sizes.items() if size.assumed),
            }
        )
    schema = pa.schema([("group_id", pa.string()), *SIMULATION_FIELDS.items()])
    return pa.Table.from_pylist(rows, schema=schema)


def simulated_groups(
    group_ids: Iterable[str],
    members: pa.Table,
    assignments: pa.Table,
    known: Mapping[str, TopicSize],
    most: int = MOST_PARTITIONS,
) -> Iterable[tuple[str, list[ClassicMemberState], dict[str, TopicSize]]]:
    """The groups with members, and their topics: those of the fewest partitions first, up to
    ``most`` in total. The number of partitions may come from bytes that a client has written. A
    group is left out if two of its members own the same partition: a broker can't convert it."""
    found = []
    for group_id, its_members in group_members(group_ids, members, assignments):
        sizes = topic_sizes(its_members, known)
        found.append(
            (sum(size.partitions for size in sizes.values()), group_id, its_members, sizes)
        )
    total = 0
    for partitions, group_id, its_members, sizes in sorted(found, key=lambda one: one[:2]):
        total += partitions
        if total > most:
            return
        if _is_exclusive(its_members):
            yield group_id, its_members, sizes


def _is_exclusive(members: Sequence[ClassicMemberState]) -> bool:
    """Whether no two members own the same partition."""
    owned = [_places(member.owned) for member in members]
    return len(set().union(*owned)) == sum(map(len, owned))


def known_sizes(topics: pa.Table | None) -> dict[str, TopicSize]:
    """The topics of the table `topics` by name."""
    if topics is None:
        return {}
    columns = (topics[name].to_pylist() for name in ("topic", "topic_id", "partitions"))
    return {
        name: TopicSize(topic_id or _made_up_id(name), count)
        for name, topic_id, count in zip(*columns, strict=True)
        if count is not None
    }


def topic_sizes(
    members: Sequence[ClassicMemberState], known: Mapping[str, TopicSize]
) -> dict[str, TopicSize]:
    """The topics of a group. One that is not known has as many partitions as the assignment shows;
    one that nobody owns a partition of is left out."""
    sizes: dict[str, TopicSize] = {}
    for topic in sorted({topic for member in members for topic in member.topics}):
        if topic in known:
            sizes[topic] = known[topic]
            continue
        last = max((max(member.owned.get(topic, ()), default=-1) for member in members), default=-1)
        if last >= 0:
            sizes[topic] = TopicSize(_made_up_id(topic), last + 1, assumed=True)
    return sizes


def _made_up_id(topic: str) -> str:
    """An id for a topic whose id is not known: it decides ties only."""
    return base64.urlsafe_b64encode(uuid.uuid5(_NAMESPACE, topic).bytes).decode().rstrip("=")


def group_members(
    group_ids: Iterable[str], members: pa.Table, assignments: pa.Table
) -> Iterable[tuple[str, list[ClassicMemberState]]]:
    """The members of each of the groups that has any, with the partitions that they own by name."""
    wanted = pa.array(list(group_ids), pa.string())
    columns = ["group_id", "member_id", "instance_id", "subscribed_topics"]
    rows = members.select(columns).filter(pc.is_in(members["group_id"], value_set=wanted))
    owned = assignments.filter(
        pc.and_(
            pc.is_in(assignments["group_id"], value_set=wanted),
            pc.and_(pc.equal(assignments["role"], "assigned"), pc.is_valid(assignments["topic"])),
        )
    )
    places: dict[tuple[str, str], dict[str, list[int]]] = {}
    names = ("group_id", "member_id", "topic", "topic_partition")
    for group_id, member_id, topic, number in zip(
        *(owned[name].to_pylist() for name in names), strict=True
    ):
        places.setdefault((group_id, member_id), {}).setdefault(topic, []).append(number)
    found: dict[str, list[ClassicMemberState]] = {}
    for group_id, member_id, instance_id, topics in zip(
        *(rows[name].to_pylist() for name in columns), strict=True
    ):
        member = ClassicMemberState(
            member_id, instance_id, tuple(topics or ()), places.get((group_id, member_id), {})
        )
        found.setdefault(group_id, []).append(member)
    return found.items()
