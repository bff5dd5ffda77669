"""A consumer of the classic protocol: it joins, syncs, heartbeats, and joins again when told to.

Eager clients (``range``) give everything up before they join again, cooperative ones only what
they are not given any more, and then they join once more. The leader computes the assignment.
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
from kip848_spark.simulation.client import BACKOFF, Client

HEARTBEAT = 3_000
LOOK_AGAIN = 30_000
"""A leader that held partitions back, or took over from another, joins again after a while: who
was to give them up may have been restarted meanwhile, and then nobody would."""
_RESET = ("UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION")
Shares = dict[str, list[tuple[str, int]]]


class ClassicConsumer(Client):
    """One member of the classic protocol."""

    classic = True

    def enter(self) -> None:
        self.first_tick = self.life.now + self.life.rng.randrange(self.group.plan.commit_interval)
        self.member_id = ""
        self._forget()
        self._join()

    def _forget(self) -> None:
        """Nobody knows this member any more."""
        self.set_owned({})
        self.epoch = -1
        self.protocol = ""
        self.settle()

    def _named(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        names = self.life.topic_names
        rows = ((names[topic], numbers) for topic, numbers in self.owned.items())
        return tuple(sorted(rows))

    def _join(self) -> None:
        self.turn()
        plan = self.group.plan
        cooperative = plan.cooperative
        topics = self.asked = tuple(sorted(self.group.topics_for(self)))
        self.seen: object = None
        subscription = Subscription(
            3 if cooperative else 1,
            topics,
            owned=self._named() if cooperative else (),
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
        self.send("JoinGroup", request, self._joined, 9)

    def _joined(self, answer: Json | None) -> None:
        code = "" if answer is None else answer["errorCode"]
        if answer is None:
            self.after(BACKOFF, self._join)
        elif code == "MEMBER_ID_REQUIRED":
            self.member_id = answer["memberId"]
            self._join()
        elif code == "NONE":
            self.tell(self.life.now)
            self.member_id, self.epoch = answer["memberId"], answer["generationId"]
            self.protocol = answer["protocolName"]
            self.settle()
            self.unsure = answer["skipAssignment"]
            shares: list[Json] = []
            if answer["leader"] == self.member_id and answer["members"]:
                shares = self._assign(answer["members"])
            self._sync(shares)
        elif code in ("UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID"):
            self.member_id = ""
            self._forget()
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
        self.send("SyncGroup", request, self._synced, 5)

    def _synced(self, answer: Json | None) -> None:
        if answer is None:
            self._join()
        elif answer["errorCode"] == "NONE":
            given = read_assignment(base64.b64decode(answer["assignment"])).partitions
            known = self.life.coordinator.shard.topics
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
            self.settle()
            self.after(HEARTBEAT, self._beat)
            if self.unsure:
                self.after(LOOK_AGAIN, self._give_up_and_join)
        elif answer["errorCode"] in _RESET:
            self.member_id = "" if answer["errorCode"] == "UNKNOWN_MEMBER_ID" else self.member_id
            self._forget()
            self.after(BACKOFF, self._join)
        else:
            self.after(BACKOFF, self._join)

    def _revoke_then_join(self, owned: Mapping[str, tuple[int, ...]]) -> None:
        self.commit(lambda _: None)

        def revoked() -> None:
            self.set_owned(owned)
            self.settle()
            self._join()

        self.turn()
        self.after(self._patience(), revoked)

    def _patience(self) -> int:
        """How long the application takes to give partitions up."""
        if self.slow:
            self.slow = False
            return self.group.plan.rebalance_timeout + 15_000
        return self.life.rng.randrange(10, 1_500)

    def _beat(self) -> None:
        life = self.life
        request: Json = {
            "groupId": self.group.plan.group_id,
            "memberId": self.member_id,
            "groupInstanceId": self.instance_id,
            "generationId": self.epoch,
        }
        if self.cut_off or life.is_lost():
            self.tell(life.now)
            self.after(HEARTBEAT, self._beat)
            return
        life.request("Heartbeat", request, self.sender, self._beaten, version=4, group=self.group)

    def _beaten(self, answer: Json) -> None:
        code = answer["errorCode"]
        if code == "NONE":
            self.after(HEARTBEAT, self._beat)
            if self.asked != tuple(sorted(self.group.topics_for(self))) or (
                self.seen is not None and self.seen != self._sizes()
            ):
                self._give_up_and_join()
        elif code == "REBALANCE_IN_PROGRESS":
            self.after(self.life.delay(), self._give_up_and_join)
        else:
            if code != "ILLEGAL_GENERATION":
                self.member_id = ""
            self._forget()
            self.after(BACKOFF, self._join)

    def _give_up_and_join(self) -> None:
        if self.group.plan.cooperative:
            self._join()
            return
        self._revoke_then_join({})

    def _sizes(self) -> tuple[object, ...]:
        """What a leader sees of the topics it assigned: if that changes, it joins again."""
        topics = self.life.coordinator.shard.topics
        found = (topics.named(name) for name in self.assigned_topics)
        return tuple((topic.topic_id, topic.partitions) if topic else None for topic in found)

    def goodbye(self, *, for_good: bool) -> tuple[str, int, Json] | None:
        static = self.instance_id is not None
        if not self.member_id or (static and not for_good):
            return None
        identity = {"memberId": self.member_id, "groupInstanceId": self.instance_id}
        return "LeaveGroup", 5, {"groupId": self.group.plan.group_id, "members": [identity]}

    # The leader's part

    def _assign(self, members: list[Json]) -> list[Json]:
        """Every partition of what each asks for; cooperative: what another owns waits a round."""
        asked: dict[str, Subscription] = {
            row["memberId"]: read_subscription(base64.b64decode(row["metadata"])) for row in members
        }
        topics = self.life.coordinator.shard.topics
        self.assigned_topics = sorted({name for said in asked.values() for name in said.topics})
        self.seen = self._sizes()
        shares: Shares = {member: [] for member in sorted(asked)}
        owned = {
            member: {(name, n) for name, numbers in said.owned for n in numbers}
            for member, said in asked.items()
            if self.group.plan.cooperative
        }
        for name in self.assigned_topics:
            topic = topics.named(name)
            takers = [member for member in sorted(asked) if name in asked[member].topics]
            if topic is not None:
                _share(name, topic.partitions, takers, shares, owned)
        holder = {place: member for member, places in owned.items() for place in places}
        rows = []
        for member, places in shares.items():
            by_name: dict[str, list[int]] = {}
            for place in places:
                if holder.get(place, member) == member:
                    by_name.setdefault(place[0], []).append(place[1])
                else:
                    self.unsure = True
            given = tuple((name, tuple(sorted(numbers))) for name, numbers in by_name.items())
            data = write_assignment(ClassicAssignment(asked[member].version, given))
            rows.append({"memberId": member, "assignment": base64.b64encode(data).decode()})
        return rows


def _share(
    name: str,
    partitions: int,
    takers: list[str],
    shares: Shares,
    owned: Mapping[str, set[tuple[str, int]]],
) -> None:
    """One topic among its takers, evenly; each keeps what it has, up to its share."""
    quota, more = divmod(partitions, len(takers))
    free = set(range(partitions))
    room = {}
    for i, member in enumerate(takers):
        room[member] = quota + (i < more)
        own = sorted(n for topic, n in owned.get(member, ()) if topic == name and n in free)
        kept = own[: room[member]]
        shares[member] += [(name, n) for n in kept]
        room[member] -= len(kept)
        free -= set(kept)
    left = sorted(free)
    for member in takers:
        taken, left = left[: room[member]], left[room[member] :]
        shares[member] += [(name, n) for n in taken]
