"""What simulated consumers of both protocols share: their lifecycle, their partitions and their
commits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from kip848_spark.coordinator import Client
from kip848_spark.coordinator.classic import keep_classic_session
from kip848_spark.coordinator.classic_group import PREPARING, STABLE, ClassicGroup
from kip848_spark.coordinator.consumer_group import ConsumerGroup, Member
from kip848_spark.coordinator.records import Json
from kip848_spark.coordinator.streams_group import StreamsGroup
from kip848_spark.simulation.commits import Commits, commit_times, lateness
from kip848_spark.simulation.interfaces import GroupInterface, OwnedPartitions, PartitionInterface

REQUEST_TIMEOUT = 30_000
BACKOFF = 100


class SimulatedClient(ABC):
    """A consumer in a process of its own.

    A client is *at rest* while the coordinator cannot refuse its commits. Its commits are then
    written in bulk by `write_commits`. Otherwise each commit is a request.
    """

    classic = False

    def __init__(self, partition: PartitionInterface, group: GroupInterface, name: str) -> None:
        self.partition = partition
        self.group = group
        self.number = partition.next_client_number()
        self.name = name
        host = f"/10.{self.number // 62_500}.{self.number // 250 % 250}.{self.number % 250}"
        self.sender = Client(name, host)
        self.instance_id = f"{group.plan.group_id}-{name}" if group.plan.static else None
        self.member_id = ""
        self.epoch = 0
        self.running = False
        self.cut_off = False
        self.slow = False
        self.known: Member | None = None
        """The member as the coordinator stored it after the last heartbeat that it
        processed in full.
        """
        self.leaving = False
        self.owned: OwnedPartitions = {}
        self.numbers = np.zeros(0, np.int64)
        self.topic_ids = np.zeros(0, np.int64)
        self.rows: list[tuple[str, int, str | None]] = []
        self.at_rest = False
        self.written_until = 0
        self.first_tick = 0
        text = f"by {name}" if group.plan.with_metadata else ""
        self.text = text
        self.metadata = partition.positions.text(text)
        self.next_request_at = -1
        self._schedule = 0

    # -- time and messages -------------------------------------------------------------------

    def after(self, delay: int, action: Callable[[], None]) -> None:
        """Run an action after a delay (ms), unless `cancel_pending` is called or the process ends
        first.
        """
        schedule = self._schedule

        def guarded() -> None:
            if self._schedule == schedule and self.running:
                action()

        self.partition.at(self.partition.now + delay, guarded)

    def cancel_pending(self) -> None:
        """Cancel every scheduled action and every response that is still expected."""
        self._schedule += 1

    def send(
        self, api: str, request: Json, then: Callable[[Json | None], None], version: int | None
    ) -> None:
        """Send a request now. ``then`` receives the response, or None after the request timeout."""
        schedule = self._schedule

        def deliver(answer: Json | None) -> None:
            if self._schedule == schedule and self.running:
                then(answer)

        partition = self.partition
        if self.cut_off or partition.is_lost():
            partition.at(partition.now + REQUEST_TIMEOUT, lambda: deliver(None))
            return
        partition.at(
            partition.now + partition.delay(), lambda: self._arrive(api, request, deliver, version)
        )

    def _arrive(
        self, api: str, request: Json, then: Callable[[Json | None], None], version: int | None
    ) -> None:
        partition = self.partition

        def reply(answer: Json) -> None:
            if self.cut_off or partition.is_lost():
                partition.at(partition.now + REQUEST_TIMEOUT, lambda: then(None))
            else:
                partition.at(partition.now + partition.delay(), lambda: then(answer))

        partition.request(api, request, self.sender, reply, version=version, group=self.group)

    # -- lifecycle ---------------------------------------------------------------------------

    def start(self) -> None:
        """Start the process."""
        self.cancel_pending()
        self.running, self.cut_off, self.leaving = True, False, False
        self.set_owned({})
        self.join_group()

    @abstractmethod
    def join_group(self) -> None:
        """Join the group for the first time since the process started."""

    @abstractmethod
    def leave_request(self, *, for_good: bool) -> tuple[str, int, Json] | None:
        """API, version and body of the request by which the client leaves; None if it
        sends none.
        """

    def stop(self, *, for_good: bool = True) -> None:
        """Shut the process down in order: commit, then leave the group."""
        if not self.running:
            return
        partition = self.partition
        self.write_commits(partition.now)
        self.at_rest = False
        if self.cut_off:
            self.crash()
            return
        self.commit(lambda _: None)
        self.cancel_pending()
        self.leaving = True
        self.running = False
        self.owned, self.rows = {}, []
        request = self.leave_request(for_good=for_good)
        if request is not None and not partition.is_lost():
            api, version, body = request
            partition.request(
                api, body, self.sender, lambda _: None, version=version, group=self.group
            )

    def crash(self) -> None:
        """End the process without any request."""
        self.write_commits(self.partition.now)
        self.cancel_pending()
        self.running = False
        self.at_rest = False
        self.owned = {}

    def cut(self, milliseconds: int) -> None:
        """Cut the client off from the network for some ms."""
        self.write_commits(self.partition.now)
        self.cut_off = True
        self.at_rest = False
        schedule = self._schedule

        def restore() -> None:
            if self.running:
                self.cut_off = False
                if self._schedule == schedule:
                    self.update_at_rest()

        self.partition.at(self.partition.now + milliseconds, restore)

    # -- commits -----------------------------------------------------------------------------

    def set_owned(self, owned: Mapping[str, Any]) -> None:
        """Read these partitions from now on."""
        partition = self.partition
        self.write_commits(partition.now)
        self.owned = {topic: tuple(sorted(numbers)) for topic, numbers in owned.items() if numbers}
        rows: list[tuple[str, int, str | None]] = []
        named = [(partition.topic_names[topic], topic) for topic in self.owned]
        for name, topic_id in sorted(named):
            rows += [(name, number, topic_id) for number in self.owned[topic_id]]
        self._set_rows(rows)
        if owned:
            self.group.check_owners()

    def _set_rows(self, rows: list[tuple[str, int, str | None]]) -> None:
        positions, group_id = self.partition.positions, self.group.plan.group_id
        self.rows = rows
        self.numbers = np.array(
            [positions.number((group_id, name, number)) for name, number, _ in rows], np.int64
        )
        self.topic_ids = np.array(
            [self.partition.committed_topic_id(self, name, topic) for name, _, topic in rows],
            np.int64,
        )

    def on_topic_change(self) -> None:
        """A topic that the client reads was recreated, grew or was deleted."""
        self.write_commits(self.partition.now)
        self._set_rows(self.rows)
        self.update_at_rest()

    def acceptable(self) -> bool:
        """Whether the coordinator would accept a commit of this client now."""
        group = self.partition.coordinator.shard.groups.get(self.group.plan.group_id)
        if isinstance(group, ConsumerGroup):
            member = group.members.get(self.member_id)
            return (
                member is not None
                and member.epoch == self.epoch
                and (member.classic is not None) == self.classic
            )
        if isinstance(group, StreamsGroup):
            thread = group.members.get(self.member_id)
            return thread is not None and thread.epoch == self.epoch
        if isinstance(group, ClassicGroup):
            return (
                self.classic
                and self.member_id in group.members
                and group.generation == self.epoch
                and group.state in (STABLE, PREPARING)
            )
        return False

    def update_at_rest(self) -> None:
        """Determine whether the client is at rest. If it is not, schedule a commit by request."""
        partition = self.partition
        at_rest = (
            self.running
            and not self.cut_off
            and not self.leaving
            and self.group.plan.kind != "transactional"
            and bool(self.rows)
            and self.acceptable()
            and all(partition.exists(self, name, topic) for name, _, topic in self.rows)
        )
        if at_rest and not self.at_rest:
            self.written_until = partition.now
        elif self.at_rest and not at_rest:
            self.write_commits(partition.now)
        self.at_rest = at_rest
        if not at_rest and self.running and self.rows:
            self._schedule_request()

    def leave_rest(self, before: int) -> None:
        """If the coordinator would refuse the client's commits since ``before`` (ms), commit by
        requests.
        """
        if self.at_rest and not self.acceptable():
            self.write_commits(before)
            self.at_rest = False
            self._schedule_request()

    def write_commits(self, until: int) -> None:
        """Write what the client has committed in bulk up to a time in ms."""
        if not self.at_rest or until <= self.written_until:
            return
        times = commit_times(
            self.first_tick, self.group.plan.commit_interval, self.written_until, until, self.number
        )
        self.written_until = until
        if len(times) == 0:
            return
        self.partition.add_commits(self, self.commits_at(times))
        if self.classic:
            self._keep_session(int(times[-1]))

    def upcoming(self, until: int) -> Commits | None:
        """What the client will commit until a time if nothing happens to it; None if nothing."""
        interval = self.group.plan.commit_interval
        times = commit_times(self.first_tick, interval, self.written_until, until, self.number)
        return self.commits_at(times) if len(times) else None

    def commits_at(self, times: Any) -> Commits:
        """What the client commits at these times."""
        positions, width = self.partition.positions, len(self.numbers)
        count = len(times) * width
        offsets = positions.offsets(self.numbers, times)
        return Commits(
            time=np.repeat(times, width),
            client=np.full(count, self.number, np.int64),
            row=np.arange(count),
            key_number=np.tile(self.numbers, len(times)),
            offset=offsets.reshape(-1),
            leader=np.tile(positions.leaders(self.numbers), len(times)),
            metadata=np.full(count, self.metadata, np.int64),
            topic_id=np.tile(self.topic_ids, len(times)),
        )

    def _keep_session(self, at: int) -> None:
        """A commit extends a classic member's session, as a heartbeat does."""
        shard = self.partition.coordinator.shard
        group = shard.groups.get(self.group.plan.group_id)
        if isinstance(group, ClassicGroup) and self.member_id in group.members:
            key = f"classic-session-{group.group_id}-{self.member_id}"
            due = shard.timers.due_of(key)
            member = group.members[self.member_id]
            if due is None or due < at + member.session_timeout:
                now, shard.now = shard.now, at
                keep_classic_session(shard, group, member)
                shard.now = now

    # Commits by request

    def _schedule_request(self) -> None:
        """Send a commit request at the next interval, unless the client is at rest by then."""
        if self.next_request_at > self.partition.now:
            return
        interval = self.group.plan.commit_interval
        number = max(0, (self.partition.now - self.first_tick) // interval) + 1
        delay = lateness(np.array([number]), self.number, interval)
        at = self.first_tick + number * interval + int(delay[0])
        self.next_request_at = at
        self.partition.at(at, self._commit_by_request)

    def _commit_by_request(self) -> None:
        if not self.running or self.at_rest:
            return
        if self.cut_off or not self.rows:
            return
        self.commit(lambda _: None)
        self.update_at_rest()

    def commit(self, then: Callable[[Json | None], None]) -> None:
        """Send a commit of the current positions as a request."""
        if not self.rows:
            then({})
            return
        self.group.commit(self, then)
