"""The life of one partition of ``__consumer_offsets``: its coordinator, its groups, its log.

A discrete-event simulation. Whatever happens is in one queue by time; the coordinator's own timers
run at theirs. What the coordinator appends goes to the log, what it answers to who asked.
"""

from __future__ import annotations

import base64
import heapq
import random
from collections.abc import Callable
from typing import Any

from kip848_spark.coordinator import Client as Sender
from kip848_spark.coordinator import Coordinator, Step
from kip848_spark.coordinator.consumer_group import ConsumerGroup
from kip848_spark.coordinator.offset_store import CommittedOffset
from kip848_spark.coordinator.records import CLASSIC_GROUP, GROUP, MEMBER, Json, Record
from kip848_spark.coordinator.sessions import keep_session
from kip848_spark.simulation.client import Client
from kip848_spark.simulation.commits import Commits, Places
from kip848_spark.simulation.group import GroupLife
from kip848_spark.simulation.invariants import Invariants
from kip848_spark.simulation.log import BY_REQUEST, BY_TICK, BY_TIMER, Log, Row
from kip848_spark.simulation.plan import START, ClusterPlan, TopicEvent
from kip848_spark.simulation.rebalance_history import History

ADMIN = Sender("admin", "/10.0.0.1")
_SWEEP = "expire-offsets"
_MEMBERSHIP = ("JoinGroup", "LeaveGroup", "ConsumerGroupHeartbeat")
"""The requests by which members come and go."""
Entry = tuple[int, int, int, str, Any, Sender, int | None]
"""Of a trace: time, what made it, its number, the API (or ``topic``), request, sender, version."""


class PartitionLife:
    """Everything that happens in one partition. With ``trace``, every request is kept there."""

    def __init__(
        self,
        plan: ClusterPlan,
        partition: int,
        log: Log,
        places: Places,
        *,
        check: bool = True,
        trace: list[Entry] | None = None,
    ) -> None:
        self.plan = plan
        self.profile = plan.profile
        self.partition = partition
        self.log = log
        self.places = places
        self.rng = random.Random(f"partition {plan.seed} {partition} {plan.profile.name}")
        self.config = {"offsets.retention.minutes": str(plan.profile.retention_minutes)}
        self.coordinator_seed = self.rng.randrange(1 << 30)
        self.coordinator = Coordinator(plan.release, self.config, self.coordinator_seed)
        self.invariants = Invariants(plan.release) if check else None
        self.trace = trace
        self.history = History(self)
        self.now = START
        self.topic_names: dict[str, str] = {}
        self.known_topics: dict[str, TopicEvent] = {}
        self.open_transactions: dict[int, bool] = {}
        self.written: dict[str, Json] = {}
        """Groups with a control record, and what key 2 or key 3 last said of them."""
        self.calm = False
        """No more deeds, no lost messages."""
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = 0
        self._tickets = 0
        self._clients = 0
        self._producers = 1_000 * (partition + 1)
        self._waiting: dict[int, Callable[[Json], None]] = {}
        self._unsynced: dict[int, dict[int, list[Any]]] = {}
        self.groups = [GroupLife(self, group) for group in plan.groups_in(partition)]
        self._named = {group.plan.group_id: group for group in self.groups}
        self._members: dict[str, Client] = {}

    # -- the queue ---------------------------------------------------------------------------

    def at(self, time: int, deed: Callable[[], None]) -> None:
        """Do something at a time."""
        self._sequence += 1
        heapq.heappush(self._queue, (time, self._sequence, deed))

    def run_until(self, until: int) -> None:
        """Let everything happen that is due by then."""
        timers = self.coordinator.shard.timers
        while True:
            due = timers.next_due()
            next_ = self._queue[0][0] if self._queue else until + 1
            if due is not None and due <= min(next_, until):
                self._run_timers(due)
            elif next_ <= until:
                self.now, _, deed = heapq.heappop(self._queue)
                deed()
            else:
                break
        self.now = until

    def _run_timers(self, due: int) -> None:
        if self.coordinator.shard.timers.due_of(_SWEEP) == due:
            self.sync(before=due)
        for group in self.groups:  # a classic member's commits keep its session
            for client in group.clients:
                if client.classic:
                    client.tell(due - 1)
        self.now = max(self.now, due)
        before = self.history.before_timers(due)
        steps = self.coordinator.run_until(self.now)
        self.history.after_timers(before)
        self._take(steps, BY_TIMER)

    # -- chance ------------------------------------------------------------------------------

    def is_lost(self) -> bool:
        """Whether the message at hand gets lost."""
        return not self.calm and self.rng.random() < self.profile.loss

    def delay(self) -> int:
        """How long the message at hand is under way."""
        return self.rng.randint(*self.profile.delay)

    def new_uuid(self) -> str:
        """An id that a client makes up for itself."""
        raw = bytearray(self.rng.randbytes(16))
        raw[6], raw[8] = raw[6] & 0x0F | 0x40, raw[8] & 0x3F | 0x80
        return base64.urlsafe_b64encode(bytes(raw)).decode().rstrip("=").replace("-", "a")

    def next_client_number(self) -> int:
        """Clients are numbered in the order they appear."""
        self._clients += 1
        return self._clients

    def next_producer(self) -> int:
        """A producer id: one for each transaction."""
        self._producers += 1
        return self._producers

    # -- the coordinator ---------------------------------------------------------------------

    def request(
        self,
        api: str,
        request: Json,
        sender: Sender,
        then: Callable[[Json], None],
        *,
        version: int | None,
        group: GroupLife,
        visible: bool = True,
    ) -> None:
        """A request arrives now; ``then`` gets the answer when there is one."""
        if api in ("OffsetCommit", "TxnOffsetCommit", "OffsetDelete", "DeleteGroups"):
            self.sync(group)
        self._tickets += 1
        self._waiting[self._tickets] = then
        was = self.history.before(group.plan.group_id) if api in _MEMBERSHIP else None
        steps = self._ask(api, request, sender, version, self._tickets)
        if was is not None:
            self.history.after_request(was, api, request)
        self._take(steps, BY_REQUEST, api=api, request=request, visible=visible)

    def beat(self, request: Json, client: Client) -> Json:
        """A regular heartbeat arrives; its answer."""
        self._tickets += 1
        ticket = self._tickets
        answers: Json = {}
        self._waiting[ticket] = answers.update
        api = "ConsumerGroupHeartbeat"
        steps = self._ask(api, request, client.sender, 1, ticket)
        self._take(steps, BY_REQUEST, api=api, request=request)
        group = self.coordinator.shard.groups.get(request["groupId"])
        client.known = (
            group.members.get(client.member_id) if isinstance(group, ConsumerGroup) else None
        )
        return answers

    def only_keeps_session(self, request: Json, client: Client) -> bool:
        """A heartbeat with nothing to say, of a member and in a group with nothing to do: nineteen
        in twenty are such. It keeps the session, and that is all it does."""
        shard = self.coordinator.shard
        group = shard.groups.get(request["groupId"])
        member = client.known
        if (
            member is None
            or not isinstance(group, ConsumerGroup)
            or group.members.get(member.member_id) is not member
            or member.epoch != request["memberEpoch"]
            or not member.reconciled_to(group.target_epoch)
            or group.regex_counts
        ):
            return False
        if not 0 < group.epoch <= group.target_epoch or self.now >= group.metadata_deadline:
            return False
        self._tracing("ConsumerGroupHeartbeat", request, client.sender, 1)
        shard.now = self.now
        keep_session(shard, group, member)
        return True

    def _ask(
        self, api: str, request: Json, sender: Sender, version: int | None, ticket: int
    ) -> list[Step]:
        self._tracing(api, dict(request), sender, version)
        return self.coordinator.request(
            self.now, api, request, sender, version=version, ticket=ticket
        )

    def _tracing(self, api: str, request: Any, sender: Sender, version: int | None) -> None:
        if self.trace is not None:
            self._sequence += 1
            entry = (self.now, BY_REQUEST, self._sequence, api, request, sender, version)
            self.trace.append(entry)

    def _take(
        self,
        steps: list[Step],
        cause: int,
        *,
        api: str = "",
        request: Json | None = None,
        visible: bool = True,
    ) -> None:
        """What the coordinator did: records to the log, answers to who asked."""
        for step in steps:
            for record in step.records:
                self.log.add(Row(step.at, cause, record, visible))
                self._note(record)
            if step.records:
                self.history.observe(step, api, request or {})
                if self.invariants is not None:
                    self.invariants.check(step.records)
            if step.records or cause == BY_TIMER or api != "ConsumerGroupHeartbeat":
                self._unsettle(step, cause, (request or {}).get("groupId"))
            for ticket, answer in step.answers:
                then = self._waiting.pop(ticket, None)
                if then is not None:
                    then(answer)

    def _note(self, record: Record) -> None:
        kind, key = record["key"]["type"], record["key"]["data"]
        if kind == CLASSIC_GROUP and record["value"] is not None:
            self.written[key["group"]] = record["value"]["data"]
        elif kind in (CLASSIC_GROUP, GROUP) and record["value"] is None:
            self.written.pop(key.get("group") or key.get("groupId"), None)
        elif kind == GROUP:
            self.written[key["groupId"]] = record["value"]["data"]
        elif kind == MEMBER:
            self.written.setdefault(key["groupId"], {})

    def _unsettle(self, step: Step, cause: int, group_id: str | None) -> None:
        """Members whose commits would be refused now were at rest up to here at most. A request
        to one group changes that group alone."""
        before = step.at if cause == BY_REQUEST else step.at - 1
        own = self._named.get(group_id) if group_id is not None else None
        for group in self.groups if own is None else [own]:
            for client in group.clients:
                if client.at_rest:
                    client.unsettle(before)

    def admin(self, api: str, group: GroupLife, request: Json) -> None:
        """An administrator's request about a group."""
        self.request(api, request, ADMIN, lambda _: None, version=None, group=group)

    def end_transaction(self, producer: int) -> None:
        """The marker of a transaction is written; its outcome was drawn when it began."""
        committed = self.open_transactions.pop(producer, None)
        if committed is None:
            return
        request = {"producerId": producer, "committed": committed}
        self._tickets += 1
        self._take(self._ask("EndTxn", request, ADMIN, None, self._tickets), BY_REQUEST)
        self.log.add(Row(self.now, BY_REQUEST, None))

    # -- commits -----------------------------------------------------------------------------

    def add_commits(self, client: Client, commits: Commits) -> None:
        """Commits in bulk of one client, to the log now and to the coordinator when it matters."""
        self.log.add_commits(commits)
        width = len(client.rows)
        places = self._unsynced.setdefault(client.group.plan.number, {})
        first = int(commits.time[0])
        for row in range(max(0, len(commits.time) - 2 * width), len(commits.time)):
            place = int(commits.place[row])
            known = places.get(place)
            places[place] = [
                known[0] if known else (first, client.number, int(commits.row[row]) % width),
                int(commits.offset[row]),
                int(commits.leader[row]),
                client.text,
                int(commits.time[row]),
                self.places.topic_ids[int(commits.topic_id[row])],
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

    def tell_group(self, group: GroupLife, until: int | None = None) -> None:
        """What a group's clients committed so far is written."""
        for client in group.clients:
            client.tell(self.now if until is None else until)

    def sync(self, group: GroupLife | None = None, before: int | None = None) -> None:
        """The coordinator learns of the commits in bulk: of one group, or of all."""
        store = self.coordinator.shard.offsets
        until = None if before is None else before - 1
        for one in self.groups if group is None else [group]:
            self.tell_group(one, until)
            places = self._unsynced.pop(one.plan.number, {})
            for place, known in sorted(places.items(), key=lambda pair: pair[1][0]):
                group_id, topic, number = self.places.known[place]
                _, offset, leader, text, at, raw = known
                topic_id = base64.urlsafe_b64encode(raw).decode().rstrip("=") if any(raw) else None
                committed = CommittedOffset(offset, leader, text, at, -1, topic_id)
                store.put(group_id, (topic, number), committed, -1)

    # -- topics ------------------------------------------------------------------------------

    def change_topic(self, event: TopicEvent) -> None:
        """A topic comes, grows or goes."""
        self.sync()
        self.topic_names[event.topic_id] = event.name
        if event.partitions:
            self.known_topics[event.name] = event
        else:
            self.known_topics.pop(event.name, None)
        self._tracing("topic", event, ADMIN, None)
        self._take(
            self.coordinator.topic(self.now, event.name, event.topic_id, event.partitions),
            BY_REQUEST,
            api="topic",
        )
        for group in self.groups:
            concerned = [c for c in group.clients if any(r[0] == event.name for r in c.rows)]
            for client in concerned:
                client.look_again()

    def exists(self, client: Client, name: str, topic_id: str | None) -> bool:
        """Whether a commit for that topic finds it."""
        topics = self.coordinator.shard.topics
        if client.group.by_id and topic_id is not None:
            return topics.with_id(topic_id) is not None
        return topics.named(name) is not None

    def committed_topic_id(self, client: Client, name: str, topic_id: str | None) -> int:
        """The number of the topic id that goes into a commit's record."""
        release = self.coordinator.release
        if not release.offset_topic_ids:
            return 0
        if client.group.by_id and topic_id is not None:
            return self.places.topic_id(base64.urlsafe_b64decode(topic_id + "=="))
        topic = self.coordinator.shard.topics.named(name)
        if release.topic_ids_by_name and topic is not None:
            return self.places.topic_id(base64.urlsafe_b64decode(topic.topic_id + "=="))
        return 0

    def name_of(self, topic: Json) -> str:
        """The name of a topic in a commit, which may have its id only."""
        name: str = topic["name"] if "name" in topic else self.topic_names[topic["topicId"]]
        return name
