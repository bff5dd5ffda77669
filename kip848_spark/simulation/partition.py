"""One simulated partition of ``__consumer_offsets``: its coordinator, its groups and its log.

A discrete-event simulation. All events wait in one queue, ordered by time; the coordinator's timers
run when they are due. Records that the coordinator appends go to the log, and its responses go to
the clients that sent the requests.
"""

from __future__ import annotations

import base64
import heapq
import random
from collections.abc import Callable
from typing import Any

from kip848_spark.coordinator import Client, Coordinator, Step, streams_group
from kip848_spark.coordinator.config import ASSIGNORS_SETTING
from kip848_spark.coordinator.consumer_group import ConsumerGroup
from kip848_spark.coordinator.offset_store import CommittedOffset
from kip848_spark.coordinator.records import CLASSIC_GROUP, GROUP, MEMBER, Json, Record
from kip848_spark.coordinator.sessions import keep_session
from kip848_spark.coordinator.share_group import SHARE_GROUP, SHARE_MEMBER
from kip848_spark.simulation.commits import Commits, ReadPositions
from kip848_spark.simulation.group import SimulatedGroup
from kip848_spark.simulation.interfaces import ClientInterface, GroupInterface
from kip848_spark.simulation.invariants import Invariants
from kip848_spark.simulation.log import BY_REQUEST, BY_TICK, BY_TIMER, Log, LogRow
from kip848_spark.simulation.plan import START, ClusterPlan, TopicEvent
from kip848_spark.simulation.rebalance_history import RebalanceHistory

ADMIN = Client("admin", "/10.0.0.1")
_EXPIRATION_TIMER = "expire-offsets"
_EPOCHS = (GROUP, SHARE_GROUP, streams_group.GROUP)
_MEMBERS = (MEMBER, SHARE_MEMBER, streams_group.MEMBER)
_MEMBERSHIP = ("JoinGroup", "LeaveGroup", "ConsumerGroupHeartbeat")
"""The requests that add members to a group or remove them."""
TraceEntry = tuple[int, int, int, str, Any, Client, int | None]
"""A traced request: time (ms), cause, sequence number, API (or ``topic``), request,
sender, version.
"""


class SimulatedPartition:
    """One partition and everything in it. If ``trace`` is a list, every request is
    appended to it.
    """

    def __init__(
        self,
        plan: ClusterPlan,
        number: int,
        log: Log,
        positions: ReadPositions,
        *,
        check: bool = True,
        trace: list[TraceEntry] | None = None,
    ) -> None:
        self.plan = plan
        self.profile = plan.profile
        self.number = number
        self.log = log
        self.positions = positions
        self.rng = random.Random(f"partition {plan.seed} {number} {plan.profile.name}")
        self.config = {
            "offsets.retention.minutes": str(plan.profile.retention_minutes),
            ASSIGNORS_SETTING: plan.assignors,
        }
        self.assignor_names = plan.assignor_names
        self.coordinator_seed = self.rng.randrange(1 << 30)
        self.coordinator = Coordinator(plan.release, self.config, self.coordinator_seed)
        self.invariants = Invariants(plan.release) if check else None
        self.trace = trace
        self.history = RebalanceHistory(
            self.coordinator, [g.group_id for g in plan.groups_in(number)]
        )
        self.now = START
        self.topic_names: dict[str, str] = {}
        self.known_topics: dict[str, TopicEvent] = {}
        self._own_topics = {topic.name for topic in plan.own_topics}
        self.open_transactions: dict[int, bool] = {}
        self.last_values: dict[str, Json] = {}
        """Groups that have a control record, with the last value of key 2 or key 3."""
        self.winding_down = False
        """The simulation is about to end: no new events, no lost messages."""
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = 0
        self._tickets = 0
        self._clients = 0
        self._producers = 1_000 * (number + 1)
        self._waiting: dict[int, Callable[[Json], None]] = {}
        self._unsynced: dict[int, dict[int, list[Any]]] = {}
        self.groups = [SimulatedGroup(self, group) for group in plan.groups_in(number)]
        self._by_id = {group.plan.group_id: group for group in self.groups}

    # -- the queue ---------------------------------------------------------------------------

    def at(self, time: int, action: Callable[[], None]) -> None:
        """Run an action at a time in ms."""
        self._sequence += 1
        heapq.heappush(self._queue, (time, self._sequence, action))

    def run_until(self, until: int) -> None:
        """Run every action and timer that is due by ``until`` (ms)."""
        timers = self.coordinator.shard.timers
        while True:
            due = timers.next_due()
            next_ = self._queue[0][0] if self._queue else until + 1
            if due is not None and due <= min(next_, until):
                self._run_timers(due)
            elif next_ <= until:
                self.now, _, action = heapq.heappop(self._queue)
                action()
            else:
                break
        self.now = until

    def _run_timers(self, due: int) -> None:
        if self.coordinator.shard.timers.due_of(_EXPIRATION_TIMER) == due:
            self.sync(before=due)
        for group in self.groups:  # a classic member's commits extend its session
            for client in group.clients:
                if client.classic:
                    client.write_commits(due - 1)
        self.now = max(self.now, due)
        before = self.history.before_timers(due)
        steps = self.coordinator.run_until(self.now)
        self.history.after_timers(before)
        self._handle(steps, BY_TIMER)

    # -- network and ids ---------------------------------------------------------------------

    def is_lost(self) -> bool:
        """Whether the network loses the current message."""
        return not self.winding_down and self.rng.random() < self.profile.loss

    def delay(self) -> int:
        """The network delay of the current message, in ms."""
        return self.rng.randint(*self.profile.delay)

    def new_uuid(self) -> str:
        """An id generated by a client."""
        raw = bytearray(self.rng.randbytes(16))
        raw[6], raw[8] = raw[6] & 0x0F | 0x40, raw[8] & 0x3F | 0x80
        return base64.urlsafe_b64encode(bytes(raw)).decode().rstrip("=").replace("-", "a")

    def next_client_number(self) -> int:
        """The number of the next client; clients are numbered in the order they are created."""
        self._clients += 1
        return self._clients

    def next_producer(self) -> int:
        """The producer id of the next transaction; each transaction has its own."""
        self._producers += 1
        return self._producers

    # -- the coordinator ---------------------------------------------------------------------

    def request(
        self,
        api: str,
        request: Json,
        sender: Client,
        then: Callable[[Json], None],
        *,
        version: int | None,
        group: GroupInterface,
        visible: bool = True,
    ) -> None:
        """Deliver a request to the coordinator now; ``then`` receives the response when
        there is one.
        """
        if api in ("OffsetCommit", "TxnOffsetCommit", "OffsetDelete", "DeleteGroups"):
            self.sync(group)
        self._tickets += 1
        self._waiting[self._tickets] = then
        was = self.history.before(group.plan.group_id) if api in _MEMBERSHIP else None
        steps = self._send(api, request, sender, version, self._tickets)
        if was is not None:
            self.history.after_request(was, api, request)
        self._handle(steps, BY_REQUEST, api=api, request=request, visible=visible)

    def heartbeat(self, request: Json, client: ClientInterface) -> Json:
        """Deliver a regular heartbeat now, and return its response."""
        self._tickets += 1
        ticket = self._tickets
        answers: Json = {}
        self._waiting[ticket] = answers.update
        api = "ConsumerGroupHeartbeat"
        steps = self._send(api, request, client.sender, 1, ticket)
        self._handle(steps, BY_REQUEST, api=api, request=request)
        group = self.coordinator.shard.groups.get(request["groupId"])
        client.known = (
            group.members.get(client.member_id) if isinstance(group, ConsumerGroup) else None
        )
        return answers

    def only_keeps_session(self, request: Json, client: ClientInterface) -> bool:
        """Extend the session if the heartbeat can have no other effect; whether that was so.

        This holds if the request reports nothing and neither the member nor its group has anything
        to do, as for 19 of 20 heartbeats.
        """
        shard = self.coordinator.shard
        group = shard.groups.get(request["groupId"])
        member = client.known
        if (
            member is None
            or not isinstance(group, ConsumerGroup)
            or group.members.get(member.member_id) is not member
            or member.epoch != request["memberEpoch"]
            or not member.is_reconciled(group.target_epoch)
            or group.regex_counts
        ):
            return False
        if not 0 < group.epoch <= group.target_epoch or self.now >= group.metadata_deadline:
            return False
        self._trace_request("ConsumerGroupHeartbeat", request, client.sender, 1)
        shard.now = self.now
        keep_session(shard, group, member)
        return True

    def _send(
        self, api: str, request: Json, sender: Client, version: int | None, ticket: int
    ) -> list[Step]:
        self._trace_request(api, dict(request), sender, version)
        return self.coordinator.request(
            self.now, api, request, sender, version=version, ticket=ticket
        )

    def _trace_request(self, api: str, request: Any, sender: Client, version: int | None) -> None:
        if self.trace is not None:
            self._sequence += 1
            entry = (self.now, BY_REQUEST, self._sequence, api, request, sender, version)
            self.trace.append(entry)

    def _handle(
        self,
        steps: list[Step],
        cause: int,
        *,
        api: str = "",
        request: Json | None = None,
        visible: bool = True,
    ) -> None:
        """Write the records of the coordinator's steps to the log and deliver their responses."""
        for step in steps:
            for record in step.records:
                self.log.add(LogRow(step.at, cause, record, visible))
                self._remember(record)
            if step.records:
                self.history.observe(step, api, request or {})
                if self.invariants is not None:
                    self.invariants.check(step.records)
            if step.records or cause == BY_TIMER or api != "ConsumerGroupHeartbeat":
                self._recheck_clients(step, cause, (request or {}).get("groupId"))
            for ticket, answer in step.answers:
                then = self._waiting.pop(ticket, None)
                if then is not None:
                    then(answer)

    def _remember(self, record: Record) -> None:
        kind, key = record["key"]["type"], record["key"]["data"]
        if kind == CLASSIC_GROUP and record["value"] is not None:
            self.last_values[key["group"]] = record["value"]["data"]
        elif kind in (CLASSIC_GROUP, *_EPOCHS) and record["value"] is None:
            self.last_values.pop(key.get("group") or key.get("groupId"), None)
        elif kind in _EPOCHS:
            self.last_values[key["groupId"]] = record["value"]["data"]
        elif kind in _MEMBERS:
            self.last_values.setdefault(key["groupId"], {})

    def _recheck_clients(self, step: Step, cause: int, group_id: str | None) -> None:
        """End bulk commits of clients whose commits the coordinator would now refuse. A request to
        one group affects only that group.
        """
        before = step.at if cause == BY_REQUEST else step.at - 1
        own = self._by_id.get(group_id) if group_id is not None else None
        for group in self.groups if own is None else [own]:
            for client in group.clients:
                if client.at_rest:
                    client.leave_rest(before)

    def admin(self, api: str, group: GroupInterface, request: Json) -> None:
        """Deliver an administrator's request about a group now."""
        self.request(api, request, ADMIN, lambda _: None, version=None, group=group)

    def end_transaction(self, producer: int) -> None:
        """Write the marker of a transaction. Its outcome was drawn when it began."""
        committed = self.open_transactions.pop(producer, None)
        if committed is None:
            return
        request = {"producerId": producer, "committed": committed}
        self._tickets += 1
        self._handle(self._send("EndTxn", request, ADMIN, None, self._tickets), BY_REQUEST)
        self.log.add(LogRow(self.now, BY_REQUEST, None))

    # -- commits -----------------------------------------------------------------------------

    def add_commits(self, client: ClientInterface, commits: Commits) -> None:
        """Write a client's bulk commits to the log; the coordinator receives them at
        the next `sync`.
        """
        self.log.add_commits(commits)
        width = len(client.rows)
        offsets = self._unsynced.setdefault(client.group.plan.number, {})
        first = int(commits.time[0])
        for row in range(max(0, len(commits.time) - 2 * width), len(commits.time)):
            key_number = int(commits.key_number[row])
            known = offsets.get(key_number)
            offsets[key_number] = [
                known[0] if known else (first, client.number, int(commits.row[row]) % width),
                int(commits.offset[row]),
                int(commits.leader[row]),
                client.text,
                int(commits.time[row]),
                self.positions.topic_ids[int(commits.topic_id[row])],
            ]
        if self.trace is not None:
            for at in sorted(set(commits.time.tolist())):
                request = client.group.commit_request(client, at)
                version = 10 if client.group.by_id else 9
                entry = (
                    at,
                    BY_TICK,
                    client.number,
                    "OffsetCommit",
                    request,
                    client.sender,
                    version,
                )
                self.trace.append(entry)

    def sync(self, group: GroupInterface | None = None, before: int | None = None) -> None:
        """Give the coordinator the bulk commits of one group, or of all groups."""
        store = self.coordinator.shard.offsets
        until = None if before is None else before - 1
        for one in self.groups if group is None else [self._by_id[group.plan.group_id]]:
            one.write_commits(self.now if until is None else until)
            offsets = self._unsynced.pop(one.plan.number, {})
            for key_number, known in sorted(offsets.items(), key=lambda pair: pair[1][0]):
                group_id, topic, number = self.positions.known[key_number]
                _, offset, leader, text, at, raw = known
                topic_id = base64.urlsafe_b64encode(raw).decode().rstrip("=") if any(raw) else None
                committed = CommittedOffset(offset, leader, text, at, -1, topic_id)
                store.put(group_id, (topic, number), committed, -1)

    # -- topics ------------------------------------------------------------------------------

    def change_topic(self, event: TopicEvent) -> None:
        """Create, grow or delete a topic."""
        self.sync()
        self.topic_names[event.topic_id] = event.name
        if event.name in self._own_topics:
            pass
        elif event.partitions:
            self.known_topics[event.name] = event
        else:
            self.known_topics.pop(event.name, None)
        self._trace_request("topic", event, ADMIN, None)
        self._handle(
            self.coordinator.topic(self.now, event.name, event.topic_id, event.partitions),
            BY_REQUEST,
            api="topic",
        )
        for group in self.groups:
            affected = [c for c in group.clients if any(r[0] == event.name for r in c.rows)]
            for client in affected:
                client.on_topic_change()

    def exists(self, client: ClientInterface, name: str, topic_id: str | None) -> bool:
        """Whether the coordinator finds the topic of a client's commit."""
        topics = self.coordinator.shard.topics
        if client.group.by_id and topic_id is not None:
            return topics.with_id(topic_id) is not None
        return topics.named(name) is not None

    def committed_topic_id(self, client: ClientInterface, name: str, topic_id: str | None) -> int:
        """The number of the topic id that a commit's record contains."""
        release = self.coordinator.release
        if not release.offset_topic_ids:
            return 0
        if client.group.by_id and topic_id is not None:
            return self.positions.topic_id(base64.urlsafe_b64decode(topic_id + "=="))
        topic = self.coordinator.shard.topics.named(name)
        if release.topic_ids_by_name and topic is not None:
            return self.positions.topic_id(base64.urlsafe_b64decode(topic.topic_id + "=="))
        return 0

    def name_of(self, topic: Json) -> str:
        """The name of a topic in a commit request, which may give only its id."""
        name: str = topic["name"] if "name" in topic else self.topic_names[topic["topicId"]]
        return name
