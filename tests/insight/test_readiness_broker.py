"""Verdicts against a real broker: a member of the new protocol really joins each kind of group."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.admin import NewTopic

from kip848_spark.insight.readiness import assess
from kip848_spark.insight.readiness_cluster import (
    SETTINGS,
    facts_from_features,
    facts_from_settings,
    known_cluster,
)
from kip848_spark.insight.readiness_simulation import (
    ClassicMemberState,
    TopicSize,
    group_members,
    simulate_group,
)
from kip848_spark.insight.readiness_versions import KnownRelease
from kip848_spark.kafka.admin import Cluster, admin_client
from kip848_spark.local.broker import Broker
from kip848_spark.simulation.log import SCHEMA
from tests.captures import read_topic
from tests.insight.classic_clients import join_for_real, start_groups, wait_for_groups
from tests.insight.classic_groups import Member, Requests
from tests.insight.readiness_lake import State, state_of_table

pytestmark = pytest.mark.slow

RELEASES = (
    "4.3.1",
    *(pytest.param(release, marks=pytest.mark.long) for release in ("4.0.2", "4.2.2", "4.4.0")),
)
TOPIC, PARTITIONS = "orders", 6
SECOND_TOPIC, MORE_PARTITIONS = "payments", 5
LIMITS = {
    "group.consumer.session.timeout.ms": "45000",
    "group.consumer.min.session.timeout.ms": "45000",
    "group.consumer.max.session.timeout.ms": "300000",
    "group.consumer.heartbeat.interval.ms": "5000",
    "group.consumer.max.size": "4",
}
REFUSED = "GROUP_ID_NOT_FOUND"
FAILED = "UNKNOWN_SERVER_ERROR"
"""The answer where the broker's own code fails."""
READS_BOUNDS = ("4.2.2", "4.4.0")
"""Releases with KAFKA-20570: they refuse an assignment whose array is longer than its bytes, which
others fail to read."""
ACCEPTED = "NONE"
STICKY = b"\x00\x00\x00\x01\x00\x06orders\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01"


@dataclass(frozen=True)
class Kind:
    """A kind of group, the verdict, and the answer to a member of the new protocol."""

    members: tuple[Member, ...]
    verdict: str
    answer: str
    protocol: str = "range"
    protocol_type: str = "consumer"


HALVES = (Member((0, 1, 2)), Member((3, 4, 5)))
KINDS = {
    "range": Kind(HALVES, "ready_with_warnings", ACCEPTED),
    "roundrobin": Kind((Member((0, 2, 4)), Member((1, 3, 5))), "ready_with_warnings", ACCEPTED,
                       "roundrobin"),
    "sticky": Kind((Member((0, 1, 2, 3, 4, 5), subscription_data=STICKY),), "ready_with_warnings",
                   ACCEPTED, "sticky"),
    "cooperative-sticky": Kind((Member((0, 1, 2, 3, 4, 5), subscription_data=STICKY),), "ready",
                               ACCEPTED, "cooperative-sticky"),
    "custom": Kind((Member((5, 0)), Member((1, 2, 3, 4))), "ready_with_warnings", ACCEPTED, "mine"),
    "custom-with-data": Kind((Member((0,), assignment_data=b"x"), Member((1,))), "blocked", REFUSED,
                             "mine"),
    "bad-subscription": Kind((Member(raw_subscription=b"\0\1\0"),), "blocked", REFUSED),
    "no-subscription": Kind((Member(raw_subscription=b""),), "blocked", REFUSED),
    "bad-assignment": Kind((Member(raw_assignment=b"\0\0\0\0\0\7"),), "blocked", FAILED),
    "short-assignment": Kind((Member(raw_assignment=b"\0"),), "blocked", REFUSED),
    "negative-version": Kind((Member(raw_assignment=b"\xff\xff\0\0\0\0"),), "blocked", REFUSED),
    "overlapping": Kind((Member((0, 1)), Member((1, 2))), "blocked", FAILED, "mine"),
    "no-assignment": Kind((Member(raw_assignment=b""),), "ready_with_warnings", ACCEPTED),
    "short-session": Kind((Member(session_timeout=30_000),), "ready_with_warnings", ACCEPTED,
                          "cooperative-sticky"),
    "static": Kind((Member((0, 1, 2), instance_id="i-1"), Member((3, 4, 5), instance_id="i-2")),
                   "ready", ACCEPTED, "cooperative-sticky"),
    "duplicated-id": Kind((Member((0,), instance_id="i-1"),), "ready", ACCEPTED,
                          "cooperative-sticky"),
    "different-topics": Kind((Member((0, 1, 2), (SECOND_TOPIC,)), Member((3, 4, 5))), "ready",
                             ACCEPTED, "cooperative-sticky"),
    "too-large": Kind(tuple(Member((n,)) for n in range(5)), "blocked", REFUSED),
    "full": Kind(tuple(Member((n,)) for n in range(4)), "ready_with_warnings",
                 "GROUP_MAX_SIZE_REACHED"),
    "connect": Kind((Member(),), "not_applicable", REFUSED, "compatible", "connect"),
    "streams": Kind((Member(assignment_data=b"x", subscription_data=b"x"),), "not_applicable",
                    REFUSED, "stream"),
}  # fmt: skip

BY_RANGE = ("roundrobin", "cooperative-sticky", "short-session")
"""Groups that a member joins that asks for range."""
REAL = {
    "java-default": "ready_with_warnings",  # range
    "java-cooperative": "ready",
    "java-sticky": "ready_with_warnings",
    "java-round-robin": "ready_with_warnings",
    "librdkafka-default": "ready_with_warnings",  # range
    "kafka-python-default": "ready_with_warnings",
    "librdkafka-sticky": "blocked",
}
"""The groups of `classic_clients`, and their verdicts."""


def start(broker: Broker, stack: ExitStack) -> Requests:
    admin = admin_client(broker.bootstrap)
    topics = [NewTopic(TOPIC, PARTITIONS, 1), NewTopic(SECOND_TOPIC, MORE_PARTITIONS, 1)]
    for made in admin.create_topics(topics).values():
        made.result(30)
    requests = Requests(broker.bootstrap, stack)
    requests.wait_for_coordinator()
    return requests


def state_now(broker: Broker) -> State:
    ends = {p: at.end for p, at in Cluster(broker.bootstrap).ends().items()}
    rows = read_topic(broker.bootstrap, ends, "read_committed")
    return state_of_table(pa.Table.from_pylist(rows, schema=SCHEMA))


def verdicts(broker: Broker, state: State) -> dict[str, dict[str, Any]]:
    """The rows by group, with what the broker answers about its settings."""
    cluster = Cluster(broker.bootstrap)
    answered = facts_from_settings(cluster.broker_settings(list(SETTINGS)))
    assert set(answered) >= {"migration_policy", "max_size", "session_timeout_min", "assignors"}
    features = facts_from_features(cluster.features())
    assert features["group_version"] == 1
    line = ".".join(broker.version.split(".")[:2])
    known = KnownRelease.of_levels(features["metadata_versions"])
    assert known.words in (line, f"{line} or later")  # the newest release has no end yet
    facts = state.facts(datetime.now(UTC))
    found = assess(facts, known_cluster(state.groups, answered | {"release": broker.version}))
    return {row["group_id"]: row for row in found.rows.to_pylist()}


@dataclass(frozen=True)
class Joined:
    """All kinds of groups on one broker: their rows, the answers to a member of the new protocol
    that joins, the states before and after, and the topics' ids. ``shared`` has the partitions that
    a real consumer got in groups of real clients. ``second`` is the answer to another member with
    the instance id of one that has joined. ``release`` is the broker's."""

    rows: dict[str, dict[str, Any]]
    answers: dict[str, str]
    before: State
    after: State
    topic_ids: dict[str, str]
    shared: dict[str, list[int]]
    second: str
    release: str


@pytest.fixture(scope="module", params=RELEASES)
def joined(request: pytest.FixtureRequest) -> Iterator[Joined]:
    with ExitStack() as stack:
        broker = stack.enter_context(Broker(request.param, settings=LIMITS))
        requests = start(broker, stack)
        cluster = Cluster(broker.bootstrap)
        real = start_groups(broker.bootstrap, broker.version, TOPIC, stack)
        assert set(real) == set(REAL)
        wait_for_groups(cluster, real, [3, 3])
        for name, kind in KINDS.items():
            requests.form(
                name,
                kind.members,
                topic=TOPIC,
                protocol=kind.protocol,
                protocol_type=kind.protocol_type,
            )
        form_with_a_past(requests)
        before = state_now(broker)
        rows = verdicts(broker, before)
        # A member that only sends raw requests would keep its share from the real ones.
        answers = {
            name: requests.try_to_join(
                name,
                TOPIC,
                assignor="range" if name in BY_RANGE else None,
                instance_id="i-1" if name == "duplicated-id" else None,
            )
            for name, row in rows.items()
            if name not in REAL or row["verdict"] == "blocked"
        }
        after = state_now(broker)
        second = requests.try_to_join("duplicated-id", TOPIC, instance_id="i-1")
        movable = [name for name, verdict in REAL.items() if verdict != "blocked"]
        shared = join_for_real(cluster, movable, TOPIC, [2, 2, 2])
        answers |= dict.fromkeys(shared, ACCEPTED)
        topics = cluster.topics([TOPIC, SECOND_TOPIC])
        ids = {name: topic.topic_id or "" for name, topic in topics.items()}
        yield Joined(rows, answers, before, after, ids, shared, second, broker.version)


def form_with_a_past(requests: Requests) -> None:
    """Groups that were converted or emptied, or never had members."""
    (left,) = requests.form("emptied", [Member(assignment_data=b"x")], topic=TOPIC)
    requests.leave("emptied", left)
    requests.commit("commits-only", TOPIC)
    requests.try_to_join("new", TOPIC)
    requests.form("mixed", HALVES, topic=TOPIC)
    requests.try_to_join("mixed", TOPIC)
    requests.form("downgraded", HALVES, topic=TOPIC, protocol="cooperative-sticky")
    newcomer = str(uuid.uuid4())
    assert requests.try_to_join("downgraded", TOPIC, member_id=newcomer) == ACCEPTED
    requests.leave_new("downgraded", newcomer)


@pytest.mark.parametrize("name", KINDS)
def test_the_verdict_is_what_then_happens(name: str, joined: Joined) -> None:
    found = joined.rows[name]["verdict"], joined.answers[name]
    answer = KINDS[name].answer
    if name == "bad-assignment" and joined.release in READS_BOUNDS:
        answer = REFUSED
    assert found == (KINDS[name].verdict, answer)


@pytest.mark.parametrize(
    ("name", "verdict", "answer"),
    [
        ("emptied", "ready", ACCEPTED),
        ("commits-only", "not_applicable", ACCEPTED),
        ("new", "already_migrated", ACCEPTED),
        ("mixed", "migrating", ACCEPTED),
        ("downgraded", "ready", ACCEPTED),
        ("librdkafka-sticky", "blocked", REFUSED),
    ],
)
def test_groups_that_came_about_in_other_ways(
    name: str, verdict: str, answer: str, joined: Joined
) -> None:
    assert (joined.rows[name]["verdict"], joined.answers[name]) == (verdict, answer)


@pytest.mark.parametrize("name", REAL)
def test_a_real_consumer_gets_its_share_where_the_verdict_lets_it(
    name: str, joined: Joined
) -> None:
    """The clients of the classic protocol give up what it gets, and keep the rest."""
    assert joined.rows[name]["verdict"] == REAL[name]
    share = len(joined.shared.get(name, ()))
    assert share == 0 if REAL[name] == "blocked" else share >= 2


def test_one_member_takes_over_an_instance_id_and_a_second_one_is_refused(joined: Joined) -> None:
    """The rule `duplicate-instance-id`: a static member that moves takes the place of its classic
    self, and of two that move with one id the later one is refused."""
    assert (joined.answers["duplicated-id"], joined.second) == (ACCEPTED, "UNRELEASED_INSTANCE_ID")


def test_the_library_of_real_clients_is_guessed(joined: Joined) -> None:
    wanted = {name: name.rpartition("-")[0] for name in REAL} | {"java-round-robin": "java"}
    assert {name: joined.rows[name]["likely_client"] for name in REAL} == wanted


def test_a_ready_group_is_never_refused_and_a_blocked_one_never_accepted(joined: Joined) -> None:
    full = {name for name, row in joined.rows.items() if "at-maximum-size" in row["warnings"]}
    assert full == {"full"}
    for name in joined.rows.keys() - full:
        verdict = joined.rows[name]["verdict"]
        if verdict in ("ready", "ready_with_warnings", "migrating", "already_migrated"):
            assert joined.answers[name] == ACCEPTED, name
        if verdict == "blocked":
            assert joined.answers[name] != ACCEPTED, name


@pytest.mark.parametrize(
    ("name", "assignor"),
    [
        ("range", "uniform"),
        ("custom", "uniform"),
        ("sticky", "uniform"),
        ("static", "uniform"),
        ("different-topics", "uniform"),
        *((name, "range") for name in BY_RANGE),
    ],
)
def test_the_simulated_assignment_is_the_one_that_the_broker_then_gives(
    name: str, assignor: str, joined: Joined
) -> None:
    """With the newcomer as a member without partitions."""
    before, after = joined.before, joined.after
    (found,) = (members for _, members in group_members([name], before.members, before.assignments))
    old = {member.member_id for member in found}
    ids = after.members.to_pylist()
    (new,) = (m["member_id"] for m in ids if m["group_id"] == name and m["member_id"] not in old)
    members = [*found, ClassicMemberState(new, None, (TOPIC,), {})]
    sizes = {
        topic: TopicSize(_url_safe(joined.topic_ids[topic]), count)
        for topic, count in ((TOPIC, PARTITIONS), (SECOND_TOPIC, MORE_PARTITIONS))
    }
    simulated = simulate_group(members, sizes, assignor)
    names = {size.topic_id: topic for topic, size in sizes.items()}
    targets: dict[str, dict[str, list[int]]] = {member.member_id: {} for member in members}
    for row in after.assignments.to_pylist():
        if row["group_id"] == name and row["role"] == "target":
            topic = names[row["topic_id"]]
            targets[row["member_id"]].setdefault(topic, []).append(row["topic_partition"])
    assert simulated.assignment.keys() >= targets.keys()
    assert {m: {t: sorted(n) for t, n in target.items()} for m, target in targets.items()} == {
        m: simulated.assignment[m] for m in targets
    }


def _url_safe(topic_id: str) -> str:
    """An id in the form of the tables."""
    return base64.urlsafe_b64encode(base64.b64decode(topic_id + "==", b"-_")).decode().rstrip("=")


@pytest.mark.long
@pytest.mark.parametrize("release", ["4.0.2", "4.2.2", "4.3.1", "4.4.0"])
@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_a_policy_that_forbids_conversions(policy: str, release: str) -> None:
    with ExitStack() as stack:
        settings = {**LIMITS, "group.consumer.migration.policy": policy}
        broker = stack.enter_context(Broker(release, settings=settings))
        requests = start(broker, stack)
        requests.form("busy", HALVES, topic=TOPIC, protocol="cooperative-sticky")
        (left,) = requests.form("emptied", [Member()], topic=TOPIC)
        requests.leave("emptied", left)
        rows = verdicts(broker, state_now(broker))
        assert (rows["busy"]["verdict"], rows["busy"]["blockers"]) == (
            "blocked",
            ["migration-policy"],
        )
        assert rows["emptied"]["verdict"] == "ready"
        assert requests.try_to_join("busy", TOPIC) == REFUSED
        assert requests.try_to_join("emptied", TOPIC) == ACCEPTED
