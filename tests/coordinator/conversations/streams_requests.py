"""Requests to a streams group: of its members, of clients of other types, of administrators."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.coordinator.conversation import Json
from tests.coordinator.conversations.administrator import RequestFunction
from tests.coordinator.share_conversations import ShareClient
from tests.streams_conversations import (
    DELAY,
    ROLES,
    STANDBYS,
    STATIC_LEAVE,
    StreamsClient,
    configure,
    subtopology,
)

# Heartbeats with tasks


def tasks(*rows: Json, role: str = "activeTasks") -> Json:
    """The three lists of a request, with these tasks in one role."""
    return {each: list(rows) if each == role else [] for each in ROLES}


def task(number: int, name: str = "0") -> Json:
    return {"subtopologyId": name, "partitions": [number]}


ALL = {"subtopologyId": "0", "partitions": [0, 1, 2, 3]}


def sends_heartbeat(me: StreamsClient, _: Any) -> None:
    me.heartbeat()


def reports_owned_tasks(me: StreamsClient, _: Any) -> None:
    me.acknowledge()


def reports_no_tasks(me: StreamsClient, _: Any) -> None:
    me.heartbeat(**tasks())


def reports_all_tasks(me: StreamsClient, _: Any) -> None:
    me.heartbeat(**tasks(ALL))


def reports_standby_tasks(me: StreamsClient, _: Any) -> None:
    me.heartbeat(**tasks(ALL, role="standbyTasks"))


def reports_warmup_tasks(me: StreamsClient, _: Any) -> None:
    me.heartbeat(**tasks(ALL, role="warmupTasks"))


def reports_active_tasks_only(me: StreamsClient, _: Any) -> None:
    me.heartbeat(activeTasks=me.owned.get("activeTasks", []))
    replace(me).heartbeat(memberEpoch=-1, standbyTasks=[], warmupTasks=[])


def reports_a_task_beyond_the_last(me: StreamsClient, _: Any) -> None:
    me.heartbeat(**tasks(task(4)))


def reports_a_task_of_no_subtopology(me: StreamsClient, _: Any) -> None:
    me.heartbeat(**tasks(task(0, "none"), role="standbyTasks"))


# Epochs


def repeats_the_previous_epoch(me: StreamsClient, _: Any) -> None:
    replace(me).heartbeat(memberEpoch=max(me.epoch - 1, 1), **me.owned)


def repeats_the_previous_epoch_without_tasks(me: StreamsClient, _: Any) -> None:
    replace(me).heartbeat(memberEpoch=max(me.epoch - 1, 1))


def repeats_the_previous_epoch_with_all_tasks(me: StreamsClient, _: Any) -> None:
    replace(me).heartbeat(memberEpoch=max(me.epoch - 1, 1), **tasks(ALL))


def sends_an_old_epoch(me: StreamsClient, _: Any) -> None:
    replace(me).heartbeat(memberEpoch=max(me.epoch - 2, 1), **tasks())


def sends_a_later_epoch(me: StreamsClient, _: Any) -> None:
    me.heartbeat(memberEpoch=me.epoch + 1)


def sends_an_epoch_below_minus_two(me: StreamsClient, _: Any) -> None:
    replace(me).heartbeat(memberEpoch=-3)


# Joins


def joins_again(me: StreamsClient, _: Any) -> None:
    me.join()


def joins_again_in_another_process(me: StreamsClient, _: Any) -> None:
    me.join(processId="p9", rackId="there")


def joins_under_another_id(me: StreamsClient, _: Any) -> None:
    me.member_id = "A2"
    me.join()


def joins_with_tasks(me: StreamsClient, _: Any) -> None:
    replace(me).join(**tasks(task(0)))


def joins_with_little(me: StreamsClient, _: Any) -> None:
    """Without what each join must have: a timeout, lists of tasks, a topology, an id."""
    for missing in (
        {"rebalanceTimeoutMs": -1},
        {"warmupTasks": None},
        {"topology": None},
        {"memberId": ""},
    ):
        replace(me).join(**missing)


def joins_with_a_later_topology(me: StreamsClient, _: Any) -> None:
    me.join(topology={"epoch": 2, "subtopologies": me.topology})


def joins_with_an_older_topology(me: StreamsClient, _: Any) -> None:
    """Whatever that was."""
    rows = [subtopology("1", sourceTopics=[me.conversation.topic_name("bar")])]
    me.join(topology={"epoch": 0, "subtopologies": rows})


def joins_with_another_topology(me: StreamsClient, _: Any) -> None:
    """Of the same epoch."""
    rows = [subtopology("1", sourceTopics=[me.conversation.topic_name("bar")])]
    me.join(topology={"epoch": 1, "subtopologies": rows})


def joins_with_a_topology_in_another_order(me: StreamsClient, _: Any) -> None:
    """Which is the same. An epoch below zero is not."""
    me.join(topology={"epoch": 1, "subtopologies": [{**row} for row in reversed(me.topology)]})
    replace(me).join(topology={"epoch": -1, "subtopologies": me.topology})


def sends_its_topology(me: StreamsClient, _: Any) -> None:
    """Only a join may."""
    replace(me).heartbeat(topology={"epoch": 0, "subtopologies": me.topology})


def meets_another_member(me: StreamsClient, _: Any) -> None:
    """A third member joins in another process, and speaks no more."""
    replace(me, name="third", member_id="third", process="p3", epoch=0).join()


def meets_a_member_of_its_process(me: StreamsClient, _: Any) -> None:
    replace(me, name="third", member_id="third", epoch=0).join()


# Changes of a member


def moves_to_another_process(me: StreamsClient, _: Any) -> None:
    me.heartbeat(processId="p9", **me.owned)


def moves_into_the_process_of_the_other(me: StreamsClient, other: StreamsClient) -> None:
    me.heartbeat(processId=other.process)


def changes_its_tags(me: StreamsClient, _: Any) -> None:
    """Tags in another order are the same."""
    zone, cluster = {"key": "zone", "value": "a"}, {"key": "cluster", "value": "b"}
    me.heartbeat(clientTags=[zone, cluster])
    me.heartbeat(clientTags=[cluster, zone])


def changes_its_rack(me: StreamsClient, _: Any) -> None:
    me.heartbeat(rackId="there")
    me.heartbeat(rackId="")


def changes_its_endpoint(me: StreamsClient, _: Any) -> None:
    me.heartbeat(userEndpoint={"host": "here", "port": 9})


def changes_its_timeout(me: StreamsClient, _: Any) -> None:
    me.heartbeat(rebalanceTimeoutMs=200_000)


def changes_nothing(me: StreamsClient, _: Any) -> None:
    """A full heartbeat."""
    more: Json = {"rebalanceTimeoutMs": me.timeout, "processId": me.process, "clientTags": []}
    me.heartbeat(**more, **me.owned)


def moves_to_another_client(me: StreamsClient, _: Any) -> None:
    """The member id stays, the client id does not."""
    replace(me, name="stranger").heartbeat()


def becomes_static(me: StreamsClient, _: Any) -> None:
    """Which 4.2 and 4.3 refuse."""
    replace(me).heartbeat(instanceId="i")
    me.instance = "i"
    me.join()
    if not me.epoch:
        me.instance = None


# The end of a member


def leaves(me: StreamsClient, _: Any) -> None:
    me.leave()
    me.leave()


def leaves_for_a_while(me: StreamsClient, _: Any) -> None:
    """Which only static members may."""
    replace(me).leave(STATIC_LEAVE)


def leaves_and_returns(me: StreamsClient, _: Any) -> None:
    me.leave()
    me.join()


def is_left_by_the_other(_: Any, other: StreamsClient) -> None:
    other.leave()


def is_called_by_an_unknown_member(me: StreamsClient, _: Any) -> None:
    for epoch in (max(me.epoch, 1), me.epoch + 1, -1):
        replace(me, member_id="nobody").heartbeat(memberEpoch=epoch)


STREAMS: list[RequestFunction] = [
    sends_heartbeat,
    reports_owned_tasks,
    reports_no_tasks,
    reports_all_tasks,
    reports_standby_tasks,
    reports_warmup_tasks,
    reports_active_tasks_only,
    reports_a_task_beyond_the_last,
    reports_a_task_of_no_subtopology,
    repeats_the_previous_epoch,
    repeats_the_previous_epoch_without_tasks,
    repeats_the_previous_epoch_with_all_tasks,
    sends_an_old_epoch,
    sends_a_later_epoch,
    sends_an_epoch_below_minus_two,
    joins_again,
    joins_again_in_another_process,
    joins_under_another_id,
    joins_with_tasks,
    joins_with_little,
    joins_with_a_later_topology,
    joins_with_an_older_topology,
    joins_with_another_topology,
    joins_with_a_topology_in_another_order,
    sends_its_topology,
    meets_another_member,
    meets_a_member_of_its_process,
    moves_to_another_process,
    moves_into_the_process_of_the_other,
    changes_its_tags,
    changes_its_rack,
    changes_its_endpoint,
    changes_its_timeout,
    changes_nothing,
    moves_to_another_client,
    becomes_static,
    leaves,
    leaves_for_a_while,
    leaves_and_returns,
    is_left_by_the_other,
    is_called_by_an_unknown_member,
]

# Requests of others


def commit(me: Any, member_id: str, epoch: int, version: int = 9, topic: str = "foo") -> None:
    for partition in (0, 3):
        me.conversation.send(
            "committer",
            "OffsetCommit",
            version,
            memberId=member_id,
            groupInstanceId=None,
            generationIdOrMemberEpoch=epoch,
            topics=me.conversation.commit_topics(topic, partition, 5, ""),
        )


def commits_at_its_epoch(me: StreamsClient, _: Any) -> None:
    commit(me, me.member_id, me.epoch)


def commits_at_other_epochs(me: StreamsClient, _: Any) -> None:
    for epoch in (me.epoch - 1, me.epoch + 1, 1):
        commit(me, me.member_id, epoch)


def commits_an_unread_topic(me: StreamsClient, _: Any) -> None:
    commit(me, me.member_id, me.epoch, topic="bar")
    commit(me, me.member_id, me.epoch - 1, topic="bar")


def commits_as_nobody(me: StreamsClient, _: Any) -> None:
    commit(me, me.member_id, me.epoch, version=8)
    commit(me, "nobody", 1)
    commit(me, "", -1)


def fetches_offsets(me: StreamsClient, _: Any) -> None:
    commit(me, me.member_id, me.epoch)
    me.conversation.offsets("foo")
    me.conversation.offsets("foo", topics=None)
    for member_id, epoch in ((me.member_id, me.epoch), (me.member_id, 99), ("nobody", 1)):
        me.conversation.offsets("foo", memberId=member_id, memberEpoch=epoch)


def is_described_as_every_type(me: StreamsClient, _: Any) -> None:
    me.conversation.describe()
    group, other = me.conversation.group, f"no-{me.conversation.group}"
    for api in ("ShareGroupDescribe", "StreamsGroupDescribe"):
        me.conversation.send("x", api, groupIds=[other, group, "", group])
    for state in ("Empty", "NotReady", "not_ready", "assigning", "reconciling", "STABLE"):
        me.conversation.send("x", "ListGroups", statesFilter=[state], typesFilter=["streams"])


def is_joined_by_a_consumer(me: StreamsClient, _: Any) -> None:
    consumer = me.conversation.consumer("c", "foo")
    consumer.join()
    consumer.heartbeat(memberId=me.member_id, memberEpoch=me.epoch)
    consumer.heartbeat(memberId=me.member_id, memberEpoch=-1)


def is_joined_by_a_classic_member(me: StreamsClient, _: Any) -> None:
    """Static, so that the answer does not only name a member id; then an old one comes back."""
    classic = me.conversation.classic("d", "foo", instance="static")
    classic.join()
    classic.sync()
    classic.heartbeat()
    classic.leave()
    me.conversation.classic("d", "foo", member_id="old").join()


def is_joined_by_a_share_member(me: StreamsClient, _: Any) -> None:
    sharing = ShareClient(me.conversation, "s", ["foo"])
    sharing.join()
    sharing.heartbeat()
    sharing.heartbeat(memberId=me.member_id, memberEpoch=-1)


def gets_standby_tasks(me: StreamsClient, _: Any) -> None:
    configure(me.conversation, {STANDBYS: "1", DELAY: "0"})
    me.heartbeat()


def gets_another_heartbeat_interval(me: StreamsClient, _: Any) -> None:
    configure(me.conversation, {"streams.heartbeat.interval.ms": "7000", DELAY: "0"})


OTHERS: list[RequestFunction] = [
    commits_at_its_epoch,
    commits_at_other_epochs,
    commits_an_unread_topic,
    commits_as_nobody,
    fetches_offsets,
    is_described_as_every_type,
    is_joined_by_a_consumer,
    is_joined_by_a_classic_member,
    is_joined_by_a_share_member,
    gets_standby_tasks,
    gets_another_heartbeat_interval,
]
