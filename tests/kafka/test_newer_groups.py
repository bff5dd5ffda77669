"""Share and streams groups of a lake against what real brokers describe."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from kip848_spark.checks.live_comparison import ChangedSince, LakeState, LiveComparison, compare
from kip848_spark.kafka.admin import Cluster
from kip848_spark.kafka.cluster import snapshot
from kip848_spark.kafka.newer_groups import describe_newer, newer_group_ids
from kip848_spark.kafka.snapshot import NO_ANSWER, NO_REQUEST, ClusterSnapshot
from kip848_spark.local.broker import Broker
from kip848_spark.local.testbed import create_topics
from kip848_spark.state.streams_tasks import STREAMS_COLUMNS, STREAMS_KINDS, streams_state
from tests.captures import COMMITTED, write_records
from tests.coordinator.test_share_against_broker import wake_share_coordinator
from tests.kafka.newer_members import NewerMembers, settings
from tests.lake.replayed_lake import control_bytes, state_after

SHARE, EMPTY, STREAMS = "live-share", "live-share-empty", "live-streams"
pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Both:
    """The state that follows from a broker's log, and its description of the same groups."""

    broker: Broker
    state: LakeState
    live: ClusterSnapshot

    def compared(self, state: LakeState | None = None) -> LiveComparison:
        return compare(state or self.state, self.live, ChangedSince())


@pytest.fixture(
    scope="module",
    params=["4.1.2", "4.2.2", "4.3.1", "4.4.0"],
)
def both(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Both]:
    version = request.param
    with Broker(version, settings=settings(version), offsets_partitions=1) as broker:
        client = NewerMembers(broker.bootstrap)
        if version.startswith("4.1"):
            wake_share_coordinator(broker)
        topics = {"live-source": 3, "live-other": 2, "live-changelog": 3}
        create_topics(Cluster(broker.bootstrap), topics)
        drive(client)
        yield describe(broker, tmp_path_factory.mktemp("newer"))


def drive(client: NewerMembers) -> None:
    """Two members in a share group, one that has left another, and two threads in a streams group,
    of which the first has not yet given up the tasks of the second."""
    deadline = time.monotonic() + 120
    for member, topics in (
        ("share-1", ["live-source"]),
        ("share-2", ["live-source", "live-other"]),
    ):
        answer = client.share(SHARE, member, 0, topics)
        while answer["assignment"] is None or not answer["assignment"]["topicPartitions"]:
            assert time.monotonic() < deadline, answer
            time.sleep(0.3)  # until the share coordinator has initialized the partitions
            answer = client.share(SHARE, member, answer["memberEpoch"])
    client.share(EMPTY, "share-3", 0, ["live-other"])
    client.share(EMPTY, "share-3", -1)
    first = client.join_streams(STREAMS, "thread-1", "live-source", "live-changelog")
    while not first["activeTasks"]:
        assert time.monotonic() < deadline, first
        time.sleep(0.3)
        again = client.streams(STREAMS, "thread-1", first["memberEpoch"])
        first = again | {"activeTasks": again["activeTasks"] or first["activeTasks"]}
    time.sleep(2)  # the assignment interval
    client.join_streams(STREAMS, "thread-2", "live-source", "live-changelog")
    client.streams(STREAMS, "thread-1", first["memberEpoch"])


def describe(broker: Broker, folder: Path) -> Both:
    """Reads the log after the cluster has answered twice the same."""
    before = None
    for _ in range(60):
        live = snapshot(broker.bootstrap)
        if before == (live.groups, live.ends):
            break
        before = live.groups, live.ends
        time.sleep(0.5)
    path = folder / COMMITTED
    write_records(broker.bootstrap, live, path, "read_committed")
    records = control_bytes(path)
    names = {topic.topic_id: topic.name for topic in live.topics.values()}
    tables = {name: rows.to_pylist() for name, rows in state_after(records).items()}
    for row in tables["assignments"]:
        row["topic"] = names.get(row["topic_id"])
    newest = latest(records).filter(pc.is_in(latest(records)["kind"], pa.array(STREAMS_KINDS)))
    streams = streams_state(newest.select(STREAMS_COLUMNS))
    state = LakeState(**tables, offsets=(), tasks=streams.tasks, topologies=streams.topologies)
    return Both(broker, state, live)


def latest(records: pa.Table) -> pa.Table:
    """The newest record of each key."""
    last = {key: row for row, key in enumerate(records["raw_key"].to_pylist())}
    return records.take(sorted(last.values()))


def test_the_log_and_the_cluster_agree(both: Both) -> None:
    result = both.compared()
    assert [str(difference) for difference in result.differences] == []
    assert result.not_compared == {}
    assert both.live.refused == both.live.unasked == {}
    described = {name: (group.type, group.state) for name, group in both.live.groups.items()}
    assert described[SHARE] == ("share", "Stable")
    assert described[EMPTY] == ("share", "Empty")
    assert described[STREAMS][0] == "streams"
    assert result.compared["groups"] >= 3
    assert result.compared["members"] >= 4
    assert result.compared["partitions"] >= 3, "of the share members"
    assert result.compared["tasks"] >= 3, "of the threads"


def edited(rows: Any, group: str, edit: Callable[[dict[str, Any]], Any], **where: Any) -> list[Any]:
    """Copies of rows; the first one of a group that has these values is edited."""
    found = [dict(row) for row in rows]
    edit(next(r for r in found if r["group_id"] == group and where.items() <= r.items()))
    return found


def without(rows: Any, group: str, **where: Any) -> list[Any]:
    """The rows without the first one of a group that has these values."""
    found = list(rows)
    found.remove(next(r for r in found if r["group_id"] == group and where.items() <= r.items()))
    return found


WRONG: dict[str, tuple[str, Callable[[LakeState], LakeState]]] = {
    "state": (SHARE, lambda s: replace(s, groups=edited(s.groups, SHARE, empty))),
    "group epoch": (
        STREAMS,
        lambda s: replace(s, groups=edited(s.groups, STREAMS, later("epoch"))),
    ),
    "assignment epoch": (
        SHARE,
        lambda s: replace(s, groups=edited(s.groups, SHARE, later("target_epoch"))),
    ),
    "topology epoch": (STREAMS, lambda s: replace(s, topologies={STREAMS: 7})),
    "members": (STREAMS, lambda s: replace(s, members=without(s.members, STREAMS))),
    "member epoch of share-2": (
        SHARE,
        lambda s: replace(
            s, members=edited(s.members, SHARE, later("member_epoch"), member_id="share-2")
        ),
    ),
    "assignment of share-2": (
        SHARE,
        lambda s: replace(
            s, assignments=without(s.assignments, SHARE, member_id="share-2", role="assigned")
        ),
    ),
    "active tasks of thread-1": (
        STREAMS,
        lambda s: replace(s, tasks=without(s.tasks, STREAMS, member_id="thread-1", role="active")),
    ),
    "target active tasks of thread-2": (
        STREAMS,
        lambda s: replace(
            s, tasks=without(s.tasks, STREAMS, member_id="thread-2", role="target active")
        ),
    ),
    "group": (EMPTY, lambda s: replace(s, groups=without(s.groups, EMPTY))),
}


def empty(row: dict[str, Any]) -> None:
    row["state"] = "Empty"


def later(column: str) -> Callable[[dict[str, Any]], None]:
    def edit(row: dict[str, Any]) -> None:
        row[column] += 5

    return edit


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_row_of_the_lake_is_found(both: Both, what: str) -> None:
    group, edit = WRONG[what]
    result = both.compared(edit(both.state))
    assert [(one.group_id, one.what) for one in result.differences] == [(group, what)]


def test_a_group_that_moved_since_is_not_judged(both: Both) -> None:
    _, edit = WRONG["group epoch"]
    moved = compare(edit(both.state), both.live, ChangedSince(groups={STREAMS}))
    assert moved.differences == []


@pytest.mark.parametrize("why", [NO_REQUEST, NO_ANSWER])
def test_groups_that_could_not_be_asked_for_are_counted(both: Both, why: str) -> None:
    newer = {SHARE, EMPTY, STREAMS}
    others = {name: group for name, group in both.live.groups.items() if name not in newer}
    unasked = replace(both.live, groups=others, unasked=dict.fromkeys(newer, why))
    result = compare(both.state, unasked, ChangedSince())
    assert result.differences == []
    assert result.not_compared == {why: 3}


def test_a_group_that_the_cluster_lost_is_found_whatever_newer_groups_say(both: Both) -> None:
    """A broker on which share groups are not enabled says so for any group id."""
    lost = {"group_id": "lost", "type": "consumer", "partition": 0, "last_offset": 1}
    state = replace(both.state, groups=[*both.state.groups, lost])
    unasked = replace(both.live, unasked={"lost": NO_REQUEST})
    result = compare(state, unasked, ChangedSince())
    assert [(one.group_id, one.what) for one in result.differences] == [("lost", "group")]


def test_a_client_that_cannot_authenticate_itself_asks_for_nothing(both: Both) -> None:
    cluster = Cluster(both.broker.bootstrap)
    cluster.config |= {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI"}
    assert describe_newer(cluster, [SHARE]).unasked == {SHARE: NO_ANSWER}
    assert newer_group_ids(cluster) == set()


@pytest.mark.slow
def test_a_broker_without_these_groups_cannot_describe_them() -> None:
    with Broker("4.0.2", offsets_partitions=1) as broker:
        cluster = Cluster(broker.bootstrap)
        deadline = time.monotonic() + 120
        while (found := describe_newer(cluster, ["a", "b"])).refused:  # until it has coordinators
            assert time.monotonic() < deadline, found
            time.sleep(0.3)
    assert found.unasked == {"a": NO_REQUEST, "b": NO_REQUEST}
    assert found.groups == found.refused == {}
