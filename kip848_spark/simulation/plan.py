"""The plan of a simulated cluster: its topics and how they change, its groups and their partitions.

Partitions of ``__consumer_offsets`` share only the user's topics, so each one is simulated
separately from a seed of its own. The same plan gives the same bytes with any number of processes.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from kip848_spark.coordinator.assignors import find_assignors
from kip848_spark.coordinator.config import ASSIGNORS_SETTING, BrokerConfig
from kip848_spark.coordinator.javahash import string_hash
from kip848_spark.coordinator.releases import LINES, Release, find_release
from kip848_spark.errors import UsageError
from kip848_spark.simulation.profiles import Profile, find_profile
from kip848_spark.simulation.topologies import KINDS, own_topics, sources

START = 1_767_225_600_000
"""When simulated time begins: 2026-01-01 00:00 UTC, in ms."""
RECORDS_A_GROUP = 25_000
LEAST_RECORDS = 500
"""With fewer records, a group would end before its first rebalance has completed."""
MOST_GROUPS = 500
SOON, SLOW_START = 1_000, 20_000
"""All groups start within this time (ms): lower and upper limit."""
DAY = 86_400_000

DEFAULT_ASSIGNORS = "uniform,range"
SHARE_PLACE, STREAMS_PLACE = 2, 1
"""Where the share and the streams group are in a cycle of groups, counted from its end."""
SHARE_WEIGHT = 0.2
"""Records per second: a share group commits nothing to ``__consumer_offsets``."""
_UNSCALED = ("transactional", "share")

_WORDS = (
    *("orders", "payments", "audit-log", "clickstream", "inventory.eu", "ledger", "shipments"),
    *("prices", "sessions", "alerts", "signups", "refunds", "metrics", "catalog", "quotes"),
)
_SERVICES = (
    *("indexer", "billing", "enricher", "exporter", "notifier"),
    *("loader", "scorer", "archiver", "joiner", "mirror"),
)


@dataclass(frozen=True)
class TopicEvent:
    """A topic as it is from ``at`` (ms) on; 0 partitions means it was deleted."""

    at: int
    name: str
    topic_id: str
    partitions: int


@dataclass(frozen=True)
class GroupPlan:
    """One group; ``kind`` is consumer, classic, simple, transactional, share or streams. Times are
    in ms.
    """

    number: int
    group_id: str
    kind: str
    topics: tuple[str, ...]
    clients: int
    static: bool
    cooperative: bool
    commit_interval: int
    commits_by_id: bool
    with_metadata: bool
    session_timeout: int
    rebalance_timeout: int
    weight: float
    """Approximate commits per second."""
    topology: str = ""
    """The kind of topology of a streams group, one of `topologies.KINDS`."""
    own_topics: tuple[TopicEvent, ...] = ()
    """Topics that only this streams group reads, or keeps its state in."""


@dataclass(frozen=True)
class ClusterPlan:
    """A whole cluster, and how many records it writes in total."""

    profile: Profile
    release: str
    seed: int
    records: int
    partitions: int
    topics: tuple[TopicEvent, ...]
    """The topics that exist at the start."""
    groups: tuple[GroupPlan, ...]
    assignors: str = DEFAULT_ASSIGNORS
    """The brokers' setting ``group.consumer.assignors``."""

    @property
    def assignor_names(self) -> tuple[str, ...]:
        """What members may ask for, sorted."""
        return tuple(sorted(find_assignors(self.assignors.split(","))))

    @property
    def own_topics(self) -> list[TopicEvent]:
        """The topics of single streams groups, which never change; in order of time."""
        topics = [topic for group in self.groups for topic in group.own_topics]
        return sorted(topics, key=lambda topic: topic.at)

    @property
    def used_partitions(self) -> list[int]:
        """The partitions of ``__consumer_offsets`` that have a group."""
        return sorted({partition_of(group.group_id, self.partitions) for group in self.groups})

    @property
    def first_starts(self) -> int:
        """Time (ms) within which all groups start, so that they exist for most of the
        simulation.
        """
        rate = sum(group.weight for group in self.groups)
        return max(SOON, min(SLOW_START, int(1_000 * self.records / rate / 4)))

    def rate_of(self, partition: int) -> float:
        """Approximate records per second in one partition."""
        return sum(group.weight for group in self.groups_in(partition))

    def groups_in(self, partition: int) -> list[GroupPlan]:
        """The groups that a partition coordinates."""
        return [
            group
            for group in self.groups
            if partition_of(group.group_id, self.partitions) == partition
        ]

    def topic_events(self) -> Iterator[TopicEvent]:
        """The changes of topics, in order of time, without end."""
        rng = random.Random(f"topics {self.seed}")
        now = START
        sizes = {event.name: event for event in self.topics}
        gone: list[TopicEvent] = []
        while True:
            now += max(2, int(rng.expovariate(1 / self.profile.topic_interval))) // 2 * 2 + 1_000
            topic = sizes[rng.choice(sorted(sizes))]
            what = rng.random()
            if self.profile.topics_go and gone and what < 0.35:
                old = gone.pop(0)
                topic = TopicEvent(now, old.name, uuid(rng), max(1, rng.randint(1, 12)))
                sizes[old.name] = topic
                yield topic
            elif self.profile.topics_go and what < 0.5 and len(sizes) > 3:
                del sizes[topic.name]
                gone.append(topic)
                yield TopicEvent(now, topic.name, topic.topic_id, 0)
            else:
                more = topic.partitions + rng.choice((1, 1, 2, 4))
                grown = TopicEvent(now, topic.name, topic.topic_id, min(more, 64))
                sizes[topic.name] = grown
                yield grown


def partition_of(group_id: str, partitions: int) -> int:
    """The partition of ``__consumer_offsets`` that holds a group's records."""
    code = string_hash(group_id)
    return 0 if code == -(2**31) else abs(code) % partitions


def uuid(rng: random.Random) -> str:
    """A random uuid in Kafka's base64 form, never with a leading dash."""
    while True:
        raw = bytearray(rng.randbytes(16))
        raw[6], raw[8] = raw[6] & 0x0F | 0x40, raw[8] & 0x3F | 0x80
        text = base64.urlsafe_b64encode(bytes(raw)).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def plan_cluster(
    profile: str,
    records: int,
    seed: int,
    *,
    release: str = "4.3",
    partitions: int = 50,
    groups: int | None = None,
    busiest: float = 0.0,
    assignors: str | None = None,
) -> ClusterPlan:
    """Plan the cluster of a seed.

    ``busiest`` is the approximate share (below 1) of all records in one partition, whose groups
    then commit more often; 0 leaves the intervals as they are. ``assignors`` is the brokers'
    ``group.consumer.assignors``, with custom ones as ``module:Class``. Raises UsageError.
    """
    traits = find_profile(profile)
    if find_release(release).name == "kip":
        raise UsageError(
            "Records of the KIP's text are not in the shipped dialect.",
            f"Simulate release {', '.join(line for line in LINES if line != 'kip')}.",
        )
    if partitions < 1 or (groups is not None and groups < 1):
        raise UsageError("A cluster needs at least one partition and one group.")
    count = groups or min(max(records // RECORDS_A_GROUP, 4), MOST_GROUPS)
    if groups is None:
        count = max(1, min(count, records // LEAST_RECORDS))
    if records < count * LEAST_RECORDS:
        raise UsageError(
            f"{records} records are too few for {count} groups.",
            f"Each group needs at least {LEAST_RECORDS}.",
        )
    rng = random.Random(f"cluster {seed} {profile}")
    topics = tuple(
        TopicEvent(
            START,
            f"{_WORDS[i % len(_WORDS)]}{'' if i < len(_WORDS) else f'.v{i // len(_WORDS) + 1}'}",
            uuid(rng),
            rng.choice((1, 3, 6, 6, 12, 12, 12, 24)),
        )
        for i in range(max(4, min(count, 200)))
    )
    plans = tuple(_group(rng, traits, number, topics) for number in range(count))
    plans = tuple(_of_newer_type(plan, traits, seed, find_release(release)) for plan in plans)
    if busiest:
        plans = _with_busiest(plans, partitions, busiest)
    plan = ClusterPlan(traits, release, seed, records, partitions, topics, plans)
    if assignors is None:
        return plan
    BrokerConfig(find_release(release), {ASSIGNORS_SETTING: assignors})  # raises if there is none
    return replace(plan, assignors=assignors)


def _group(
    rng: random.Random, traits: Profile, number: int, topics: tuple[TopicEvent, ...]
) -> GroupPlan:
    chosen = rng.sample(topics, min(len(topics), rng.choice((1, 1, 2, 3))))
    name = f"{chosen[0].name}-{rng.choice(_SERVICES)}-{number}"
    what = rng.random()
    kind = "classic" if rng.random() < traits.classic else "consumer"
    if what < traits.simple:
        kind = "simple"
    elif what < traits.simple + traits.transactional:
        kind = "transactional"
    interval = rng.choice((5_000, 5_000, 5_000, 2_000, 10_000))
    size = sum(topic.partitions for topic in chosen)
    if kind == "transactional":  # each of them passes through the coordinator
        interval = 30_000
    return GroupPlan(
        number=number,
        group_id=name,
        kind=kind,
        topics=tuple(topic.name for topic in chosen),
        clients=rng.randint(*traits.clients) if kind != "simple" else 1,
        static=rng.random() < traits.static and kind in ("classic", "consumer"),
        cooperative=rng.random() < 0.5,
        commit_interval=interval,
        commits_by_id=rng.random() < 0.5,
        with_metadata=rng.random() < 0.15,
        session_timeout=rng.choice((10_000, 30_000, 45_000)),
        rebalance_timeout=rng.choice((20_000, 60_000)),
        weight=size * 1_000 / interval,
    )


def _of_newer_type(plan: GroupPlan, traits: Profile, seed: int, release: Release) -> GroupPlan:
    """The plan as it is, or that of a share or streams group. It draws from a sequence of its own,
    so the other groups are the same in every release.
    """
    place = traits.cycle - plan.number % traits.cycle
    if place == SHARE_PLACE and release.share_groups:
        return replace(plan, kind="share", static=False, weight=SHARE_WEIGHT)
    if place != STREAMS_PLACE or not release.streams_configs:
        return plan
    rng = random.Random(f"streams {seed} {traits.name} {plan.number}")
    kind = rng.choice(KINDS)
    own = tuple(
        TopicEvent(START + rng.choice((0, 0, 0, 40_000)), name, uuid(rng), topic_partitions)
        for name, topic_partitions in own_topics(kind, plan.group_id, rng.choice((2, 4, 6)))
    )
    topics = tuple(sources(kind, plan.group_id)) or plan.topics[:1]
    return replace(
        plan,
        kind="streams",
        topics=topics,
        static=False,
        topology=kind,
        own_topics=own,
        weight=6_000 / plan.commit_interval,
    )


def _with_busiest(
    groups: tuple[GroupPlan, ...], partitions: int, share: float
) -> tuple[GroupPlan, ...]:
    """Shorten the commit intervals of one partition's groups so that it has the given share of all
    commits. Transactional groups are unchanged, since each of their commits passes through the
    coordinator, and so are share groups, which do not commit.
    """
    homes = [partition_of(group.group_id, partitions) for group in groups]
    weights: dict[int, float] = {}
    for group, home in zip(groups, homes, strict=True):
        if group.kind not in _UNSCALED:
            weights[home] = weights.get(home, 0.0) + group.weight
    if not weights or len(set(homes)) == 1:
        return groups
    most = max(sorted(weights), key=lambda home: weights[home])
    others = sum(g.weight for g, home in zip(groups, homes, strict=True) if home != most)
    fixed = sum(g.weight for g, home in zip(groups, homes, strict=True) if home == most)
    fixed -= weights[most]
    factor = max(others * share / (1 - share) - fixed, 0.0) / weights[most] or 1.0
    return tuple(
        replace(
            group,
            commit_interval=max(1, round(group.commit_interval / factor)),
            weight=group.weight * factor,
        )
        if home == most and group.kind not in _UNSCALED
        else group
        for group, home in zip(groups, homes, strict=True)
    )
