"""A consumer of the classic protocol: it joins, syncs, heartbeats, and rejoins when told to.

Eager clients (``range``) revoke all partitions before they rejoin. Cooperative clients revoke only
what their new assignment lacks, and then rejoin once more. The leader computes the assignment.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping

from kip848_spark.coordinator.consumer_protocol import (
    ClassicAssignment,
    Subscription,
    read_assignment,
    read_subscription,
    write_assignment,
    write_subscription,
)
from kip848_spark.coordinator.records import Json
from kip848_spark.simulation.client import BACKOFF, SimulatedClient

HEARTBEAT_INTERVAL = 3_000
REJOIN_AFTER = 30_000
"""How long (ms) a leader waits before it rejoins if it withheld partitions or took over from
another leader. The member that was to revoke them may have been restarted, and then nobody else
would trigger a rebalance.
"""
_RESET = ("UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION")
PartitionsByMember = dict[str, list[tuple[str, int]]]


class ClassicConsumer(SimulatedClient):
    """One member of the classic protocol."""

    classic = True

    def join_group(self) -> None:
        self.first_tick = self.partition.now + self.partition.rng.randrange(
            self.group.plan.commit_interval
        )
        self.member_id = ""
        self._reset()
        self._join()

    def _reset(self) -> None:
        """The coordinator no longer knows this member."""
        self.set_owned({})
        self.epoch = -1
        self.protocol = ""
        self.update_at_rest()

    def _owned_by_name(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        names = self.partition.topic_names
        rows = ((names[topic], numbers) for topic, numbers in self.owned.items())
        return tuple(sorted(rows))

    def _join(self) -> None:
        self.cancel_pending()
        plan = self.group.plan
        cooperative = plan.cooperative
        topics = self.subscribed = tuple(sorted(self.group.topics_for(self.number)))
        self.assigned_sizes: object = None
        subscription = Subscription(
            3 if cooperative else 1,
            topics,
            owned=self._owned_by_name() if cooperative else (),
            generation=self.epoch if cooperative else -1,
        )
        metadata = base64.b64encode(write_subscription(subscription)).decode()
        request: Json = {
            "groupId": plan.group_id,
            "memberId": self.member_id,
            "groupInstanceId": self.instance_id,
            "protocolType": "consumer",
            "sessionTimeoutMs": plan.session_timeout,
            "rebalanceTimeoutMs": plan.rebalance_timeout,
            "protocols": [
                {"name": "cooperative-sticky" if cooperative else "range", "metadata": metadata}
            ],
        }
        self.send("JoinGroup", request, self._on_join, 9)

    def _on_join(self, answer: Json | None) -> None:
        code = "" if answer is None else answer["errorCode"]
        if answer is None:
            self.after(BACKOFF, self._join)
        elif code == "MEMBER_ID_REQUIRED":
            self.member_id = answer["memberId"]
            self._join()
        elif code == "NONE":
            self.write_commits(self.partition.now)
            self.member_id, self.epoch = answer["memberId"], answer["generationId"]
            self.protocol = answer["protocolName"]
            self.update_at_rest()
            self.incomplete = answer["skipAssignment"]
            shares: list[Json] = []
            if answer["leader"] == self.member_id and answer["members"]:
                shares = self._assign(answer["members"])
            self._sync(shares)
        elif code in ("UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID"):
            self.member_id = ""
            self._reset()
            self.after(BACKOFF, self._join)
        else:
            self.after(1_000, self._join)

    def _sync(self, shares: list[Json]) -> None:
        request: Json = {
            "groupId": self.group.plan.group_id,
            "memberId": self.member_id,
            "groupInstanceId": self.instance_id,
            "generationId": self.epoch,
            "protocolType": "consumer",
            "protocolName": self.protocol,
            "assignments": shares,
        }
        self.send("SyncGroup", request, self._on_sync, 5)

    def _on_sync(self, answer: Json | None) -> None:
        if answer is None:
            self._join()
        elif answer["errorCode"] == "NONE":
            given = read_assignment(base64.b64decode(answer["assignment"])).partitions
            known = self.partition.coordinator.shard.topics
            owned = {}
            for name, numbers in given:
                topic = known.named(name)
                if topic is not None:
                    owned[topic.topic_id] = tuple(sorted(numbers))
            lost = any(
                not set(numbers) <= set(owned.get(topic, ()))
                for topic, numbers in self.owned.items()
            )
            if lost and self.group.plan.cooperative:
                self._revoke_then_join(owned)
                return
            self.set_owned(owned)
            self.update_at_rest()
            self.after(HEARTBEAT_INTERVAL, self._heartbeat)
            if self.incomplete:
                self.after(REJOIN_AFTER, self._rejoin)
        elif answer["errorCode"] in _RESET:
            self.member_id = "" if answer["errorCode"] == "UNKNOWN_MEMBER_ID" else self.member_id
            self._reset()
            self.after(BACKOFF, self._join)
        else:
            self.after(BACKOFF, self._join)

    def _revoke_then_join(self, owned: Mapping[str, tuple[int, ...]]) -> None:
        self.commit(lambda _: None)

        def finish() -> None:
            self.set_owned(owned)
            self.update_at_rest()
            self._join()

        self.cancel_pending()
        self.after(self._revocation_time(), finish)

    def _revocation_time(self) -> int:
        """How long (ms) the application takes to revoke partitions."""
        if self.slow:
            self.slow = False
            return self.group.plan.rebalance_timeout + 15_000
        return self.partition.rng.randrange(10, 1_500)

    def _heartbeat(self) -> None:
        partition = self.partition
        request: Json = {
            "groupId": self.group.plan.group_id,
            "memberId": self.member_id,
            "groupInstanceId": self.instance_id,
            "generationId": self.epoch,
        }
        if self.cut_off or partition.is_lost():
            self.write_commits(partition.now)
            self.after(HEARTBEAT_INTERVAL, self._heartbeat)
            return
        partition.request(
            "Heartbeat", request, self.sender, self._on_heartbeat, version=4, group=self.group
        )

    def _on_heartbeat(self, answer: Json) -> None:
        code = answer["errorCode"]
        if code == "NONE":
            self.after(HEARTBEAT_INTERVAL, self._heartbeat)
            if self.subscribed != tuple(sorted(self.group.topics_for(self.number))) or (
                self.assigned_sizes is not None and self.assigned_sizes != self._topic_sizes()
            ):
                self._rejoin()
        elif code == "REBALANCE_IN_PROGRESS":
            self.after(self.partition.delay(), self._rejoin)
        else:
            if code != "ILLEGAL_GENERATION":
                self.member_id = ""
            self._reset()
            self.after(BACKOFF, self._join)

    def _rejoin(self) -> None:
        if self.group.plan.cooperative:
            self._join()
            return
        self._revoke_then_join({})

    def _topic_sizes(self) -> tuple[object, ...]:
        """Id and partition count of each assigned topic: if they change, the leader rejoins."""
        topics = self.partition.coordinator.shard.topics
        found = (topics.named(name) for name in self.assigned_topics)
        return tuple((topic.topic_id, topic.partitions) if topic else None for topic in found)

    def leave_request(self, *, for_good: bool) -> tuple[str, int, Json] | None:
        static = self.instance_id is not None
        if not self.member_id or (static and not for_good):
            return None
        identity = {"memberId": self.member_id, "groupInstanceId": self.instance_id}
        return "LeaveGroup", 5, {"groupId": self.group.plan.group_id, "members": [identity]}

    # The leader's assignment

    def _assign(self, members: list[Json]) -> list[Json]:
        """Assign every subscribed partition. A cooperative leader withholds a partition that
        another member still owns.
        """
        subscriptions: dict[str, Subscription] = {
            row["memberId"]: read_subscription(base64.b64decode(row["metadata"])) for row in members
        }
        topics = self.partition.coordinator.shard.topics
        self.assigned_topics = sorted(
            {name for subscription in subscriptions.values() for name in subscription.topics}
        )
        self.assigned_sizes = self._topic_sizes()
        shares: PartitionsByMember = {member: [] for member in sorted(subscriptions)}
        owned = {
            member: {(name, n) for name, numbers in subscription.owned for n in numbers}
            for member, subscription in subscriptions.items()
            if self.group.plan.cooperative
        }
        for name in self.assigned_topics:
            topic = topics.named(name)
            subscribers = [
                member for member in sorted(subscriptions) if name in subscriptions[member].topics
            ]
            if topic is not None:
                _share_topic(name, topic.partitions, subscribers, shares, owned)
        holder = {place: member for member, places in owned.items() for place in places}
        rows = []
        for member, places in shares.items():
            by_name: dict[str, list[int]] = {}
            for place in places:
                if holder.get(place, member) == member:
                    by_name.setdefault(place[0], []).append(place[1])
                else:
                    self.incomplete = True
            given = tuple((name, tuple(sorted(numbers))) for name, numbers in by_name.items())
            data = write_assignment(ClassicAssignment(subscriptions[member].version, given))
            rows.append({"memberId": member, "assignment": base64.b64encode(data).decode()})
        return rows


def _share_topic(
    name: str,
    partitions: int,
    subscribers: list[str],
    shares: PartitionsByMember,
    owned: Mapping[str, set[tuple[str, int]]],
) -> None:
    """Distribute one topic evenly among its subscribers; each keeps what it owns, up to
    its share.
    """
    quota, more = divmod(partitions, len(subscribers))
    free = set(range(partitions))
    missing = {}
    for i, member in enumerate(subscribers):
        missing[member] = quota + (i < more)
        own = sorted(n for topic, n in owned.get(member, ()) if topic == name and n in free)
        kept = own[: missing[member]]
        shares[member] += [(name, n) for n in kept]
        missing[member] -= len(kept)
        free -= set(kept)
    left = sorted(free)
    for member in subscribers:
        taken, left = left[: missing[member]], left[missing[member] :]
        shares[member] += [(name, n) for n in taken]
