"""Transactions, expiry and deletion of offsets, and the metrics that count them."""

from __future__ import annotations

from typing import Any

from kip848_spark.coordinator import Client, Coordinator, Step

FOO = "Zm9vAAAAAAAAAAAAAAAAAA"
DAY = 86_400_000


class Broker:
    def __init__(self, release: str = "4.3", **config: str) -> None:
        self.coordinator = Coordinator(release, config)
        self.now = 0
        self.coordinator.topic(0, "foo", FOO, 3)

    def send(self, api: str, **request: Any) -> dict[str, Any]:
        self.now += 10
        for step in self.coordinator.request(self.now, api, {"groupId": "g"} | request, Client()):
            for _, answer in step.answers:
                return answer
        raise AssertionError("no answer")

    def commit(self, partition: int, offset: int, api: str = "OffsetCommit", **more: Any) -> str:
        part = {"partitionIndex": partition, "committedOffset": offset, "committedMetadata": "m"}
        answer = self.send(api, topics=[{"name": "foo", "partitions": [part]}], **more)
        return str(answer["topics"][0]["partitions"][0]["errorCode"])

    def fetched(self, partition: int, *, stable: bool = False) -> tuple[int, str]:
        topics = [{"name": "foo", "partitionIndexes": [partition]}]
        answer = self.send(
            "OffsetFetch", groups=[{"groupId": "g", "topics": topics}], requireStable=stable
        )
        part = answer["groups"][0]["topics"][0]["partitions"][0]
        return part["committedOffset"], part["errorCode"]

    def until(self, at: int) -> list[str]:
        """Advance the clock; returns the key types of the records written meanwhile."""
        self.now = at
        return kinds(self.coordinator.run_until(at))


def kinds(steps: list[Step]) -> list[str]:
    return [
        record["key"]["type"] + ("" if record["value"] else "t")
        for step in steps
        for record in step.records
    ]


def test_transactional_offset_is_pending_until_the_marker() -> None:
    broker = Broker()
    assert broker.commit(0, 5) == "NONE"
    assert broker.commit(0, 9, "TxnOffsetCommit", producerId=7, producerEpoch=0) == "NONE"
    assert broker.fetched(0) == (5, "NONE")
    assert broker.fetched(0, stable=True) == (-1, "UNSTABLE_OFFSET_COMMIT")
    broker.send("EndTxn", producerId=7, committed=True)
    assert broker.fetched(0, stable=True) == (9, "NONE")


def test_aborted_transaction_changes_no_offset() -> None:
    broker = Broker()
    broker.commit(1, 9, "TxnOffsetCommit", producerId=7, producerEpoch=0)
    broker.send("EndTxn", producerId=7, committed=False)
    assert broker.fetched(1) == (-1, "NONE")
    broker.send("EndTxn", producerId=8, committed=True)  # a marker without pending offsets


def test_later_plain_commit_overrides_transaction() -> None:
    broker = Broker()
    broker.commit(0, 9, "TxnOffsetCommit", producerId=7, producerEpoch=0)
    broker.commit(0, 5)
    broker.send("EndTxn", producerId=7, committed=True)
    assert broker.fetched(0) == (5, "NONE")


def test_offsets_and_empty_group_expire() -> None:
    broker = Broker()
    broker.commit(0, 5)
    broker.commit(1, 5)
    assert broker.until(6 * DAY) == []
    broker.commit(1, 6)
    assert broker.until(8 * DAY) == ["1t"]
    assert broker.until(14 * DAY) == ["1t", "2t"]
    assert broker.coordinator.shard.groups == {}
    assert broker.coordinator.metrics()["offset-expiration-count"] == 2


def test_explicit_retention_overrides_the_setting() -> None:
    broker = Broker()
    broker.commit(0, 5, retentionTimeMs=DAY)
    assert broker.until(2 * DAY) == ["1t", "2t"]


def test_offsets_of_subscribed_topics_do_not_expire() -> None:
    broker = Broker()
    broker.send(
        "ConsumerGroupHeartbeat",
        memberId="A",
        instanceId="a",
        memberEpoch=0,
        rebalanceTimeoutMs=1_000,
        subscribedTopicNames=["foo"],
        topicPartitions=[],
    )
    shard = broker.coordinator.shard
    shard.timers.cancel("session-g-A")
    assert broker.commit(0, 5, memberId="A", generationIdOrMemberEpoch=2) == "NONE"
    assert broker.until(30 * DAY) == []
    assert broker.coordinator.metrics()["group-count[protocol=consumer]"] == 1
    assert broker.coordinator.metrics()["consumer-group-count[state=Stable]"] == 1
    assert broker.coordinator.metrics()["consumer-group-rebalance-count"] == 1


def test_deleting_a_topic_deletes_its_offsets() -> None:
    broker = Broker()
    broker.commit(0, 5)
    broker.commit(2, 5, "TxnOffsetCommit", producerId=7, producerEpoch=0)
    assert kinds(broker.coordinator.topic(100, "foo", FOO, 0)) == ["1t", "1t"]
    broker.now = 100
    broker.send("EndTxn", producerId=7, committed=True)
    assert broker.coordinator.shard.offsets.group("g") == {}


def test_oversized_metadata_is_refused_per_partition() -> None:
    broker = Broker(**{"offset.metadata.max.bytes": "0"})
    assert broker.commit(0, 5) == "OFFSET_METADATA_TOO_LARGE"


def test_offset_of_another_topic_of_the_same_name_is_not_fetched_by_id() -> None:
    """The record has the id of a topic that was deleted and created again."""
    broker = Broker()
    assert broker.commit(0, 5) == "NONE"
    record = dict(_record(broker), topicId="b3RoZXIAAAAAAAAAAAAAAA")
    key = {"type": "1", "data": {"group": "g", "topic": "foo", "partition": 0}}
    broker.coordinator.replay({"key": key, "value": {"version": "4", "data": record}})
    assert broker.fetched(0) == (5, "NONE")
    topics = [{"topicId": FOO, "partitionIndexes": [0]}]
    for requested, offset in ((topics, -1), (None, 5)):  # as 4.3.1 answers
        answer = broker.send("OffsetFetch", groups=[{"groupId": "g", "topics": requested}])
        row = answer["groups"][0]["topics"][0]
        part = row["partitions"][0]
        assert row["topicId"] == FOO
        assert (part["committedOffset"], part["errorCode"]) == (offset, "NONE")


def _record(broker: Broker) -> dict[str, Any]:
    offset = broker.coordinator.shard.offsets.group("g")["foo", 0]
    return {
        "offset": offset.offset,
        "leaderEpoch": offset.leader_epoch,
        "metadata": offset.metadata,
        "commitTimestamp": offset.commit_timestamp,
    }


def test_a_member_that_leaves_does_not_count_as_a_rebalance() -> None:
    broker = Broker()
    who = {"memberId": "A"}
    broker.send(
        "ConsumerGroupHeartbeat",
        memberEpoch=0,
        rebalanceTimeoutMs=1_000,
        subscribedTopicNames=["foo"],
        topicPartitions=[],
        **who,
    )
    broker.send("ConsumerGroupHeartbeat", memberEpoch=-1, **who)
    assert broker.coordinator.metrics()["consumer-group-rebalance-count"] == 1


def test_a_classic_rebalance_is_complete_when_the_leader_has_synced() -> None:
    broker = Broker(**{"group.initial.rebalance.delay.ms": "0"})
    protocols = [{"name": "range", "metadata": "AAAAAAABAANmb2//////"}]
    join = {
        "sessionTimeoutMs": 30_000,
        "rebalanceTimeoutMs": 30_000,
        "protocolType": "consumer",
        "protocols": protocols,
    }
    member = str(broker.send("JoinGroup", memberId="", **join)["memberId"])
    assert broker.send("JoinGroup", memberId=member, **join)["generationId"] == 1
    assert broker.coordinator.metrics()["group-completed-rebalance-count"] == 0
    broker.send("SyncGroup", memberId=member, generationId=1, assignments=[])
    assert broker.coordinator.metrics()["group-completed-rebalance-count"] == 1
