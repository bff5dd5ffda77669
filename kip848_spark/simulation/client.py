"""What consumers of both protocols have in common: a life, what they own, and their commits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from kip848_spark.coordinator import Client as Sender
from kip848_spark.coordinator.classic import keep_classic_session
from kip848_spark.coordinator.classic_group import PREPARING, STABLE, ClassicGroup
from kip848_spark.coordinator.consumer_group import ConsumerGroup, Member
from kip848_spark.coordinator.records import Json
from kip848_spark.simulation.commits import Commits, late, ticks

if TYPE_CHECKING:
    from kip848_spark.simulation.group import GroupLife
    from kip848_spark.simulation.partition import PartitionLife

Owned = dict[str, tuple[int, ...]]
"""What a client works on: partitions by topic id."""
REQUEST_TIMEOUT = 30_000
BACKOFF = 100


class Client(ABC):
    """A consumer in a process of its own.

    While it is *at rest*, what it commits can't be refused: it is then written in bulk, when
    someone asks (`tell`). Otherwise each commit is a request.
    """

    classic = False

    def __init__(self, life: PartitionLife, group: GroupLife, name: str) -> None:
        self.life = life
        self.group = group
        self.number = life.next_client_number()
        self.name = name
        host = f"/10.{self.number // 62_500}.{self.number // 250 % 250}.{self.number % 250}"
        self.sender = Sender(name, host)
        self.instance_id = f"{group.plan.group_id}-{name}" if group.plan.static else None
        self.member_id = ""
        self.epoch = 0
        self.running = False
        self.cut_off = False
        self.slow = False
        self.known: Member | None = None
        """The member as the coordinator had it after the last heartbeat it answered in full."""
        self.leaving = False
        self.born = 0
        self.owned: Owned = {}
        self.numbers = np.zeros(0, np.int64)
        self.topic_ids = np.zeros(0, np.int64)
        self.rows: list[tuple[str, int, str | None]] = []
        self.at_rest = False
        self.told = 0
        self.first_tick = 0
        text = f"by {name}" if group.plan.with_metadata else ""
        self.text = text
        self.metadata = life.places.text(text)
        self.asking = -1
        self._turn = 0

    # -- time and messages -------------------------------------------------------------------

    def after(self, delay: int, deed: Callable[[], None]) -> None:
        """Do something later, unless the client's life has changed by then (see `turn`)."""
        turn = self._turn

        def still() -> None:
            if self._turn == turn and self.running:
                deed()

        self.life.at(self.life.now + delay, still)

    def turn(self) -> None:
        """Whatever was to come later is off."""
        self._turn += 1

    def send(
        self, api: str, request: Json, then: Callable[[Json | None], None], version: int | None
    ) -> None:
        """Send a request now; ``then`` gets the answer, or None when none came in time."""
        turn = self._turn

        def answered(answer: Json | None) -> None:
            if self._turn == turn and self.running:
                then(answer)

        life = self.life
        if self.cut_off or life.is_lost():
            life.at(life.now + REQUEST_TIMEOUT, lambda: answered(None))
            return
        life.at(life.now + life.delay(), lambda: self._arrive(api, request, answered, version))

    def _arrive(
        self, api: str, request: Json, then: Callable[[Json | None], None], version: int | None
    ) -> None:
        life = self.life

        def back(answer: Json) -> None:
            if self.cut_off or life.is_lost():
                life.at(life.now + REQUEST_TIMEOUT, lambda: then(None))
            else:
                life.at(life.now + life.delay(), lambda: then(answer))

        life.request(api, request, self.sender, back, version=version, group=self.group)

    # -- life --------------------------------------------------------------------------------

    def start(self) -> None:
        """The process starts."""
        self.turn()
        self.running, self.cut_off, self.leaving = True, False, False
        self.born = self.life.now
        self.group.present(self)
        self.set_owned({})
        self.enter()

    @abstractmethod
    def enter(self) -> None:
        """Join the group."""

    @abstractmethod
    def goodbye(self, *, for_good: bool) -> tuple[str, int, Json] | None:
        """The API, version and request that tell of its leaving; None if nobody is told."""

    def stop(self, *, for_good: bool = True) -> None:
        """The process ends in order: it commits, and says that it leaves."""
        if not self.running:
            return
        life = self.life
        self.tell(life.now)
        self.at_rest = False
        if self.cut_off:
            self.crash()
            return
        self.commit(lambda _: None)
        self.turn()
        self.leaving = True
        self.running = False
        self.owned, self.rows = {}, []
        words = self.goodbye(for_good=for_good)
        if words is not None and not life.is_lost():
            api, version, request = words
            life.request(
                api, request, self.sender, lambda _: None, version=version, group=self.group
            )

    def crash(self) -> None:
        """The process is gone; nobody is told."""
        self.tell(self.life.now)
        self.turn()
        self.running = False
        self.at_rest = False
        self.owned = {}

    def cut(self, milliseconds: int) -> None:
        """The network to it is down for a while."""
        self.tell(self.life.now)
        self.cut_off = True
        self.at_rest = False
        turn = self._turn

        def mended() -> None:
            if self.running:
                self.cut_off = False
                if self._turn == turn:
                    self.settle()

        self.life.at(self.life.now + milliseconds, mended)

    # -- commits -----------------------------------------------------------------------------

    def set_owned(self, owned: Mapping[str, Any]) -> None:
        """The client works on these partitions from now on."""
        life = self.life
        self.tell(life.now)
        self.owned = {topic: tuple(sorted(numbers)) for topic, numbers in owned.items() if numbers}
        rows: list[tuple[str, int, str | None]] = []
        named = [(life.topic_names[topic], topic) for topic in self.owned]
        for name, topic_id in sorted(named):
            rows += [(name, number, topic_id) for number in self.owned[topic_id]]
        self._set_rows(rows)
        if owned:
            self.group.check_owners()

    def _set_rows(self, rows: list[tuple[str, int, str | None]]) -> None:
        places, group_id = self.life.places, self.group.plan.group_id
        self.rows = rows
        self.numbers = np.array(
            [places.number((group_id, name, number)) for name, number, _ in rows], np.int64
        )
        self.topic_ids = np.array(
            [self.life.committed_topic_id(self, name, topic) for name, _, topic in rows], np.int64
        )

    def look_again(self) -> None:
        """A topic it works on is another one now, or gone."""
        self.tell(self.life.now)
        self._set_rows(self.rows)
        self.settle()

    def acceptable(self) -> bool:
        """Whether the coordinator takes a commit from this client as it is."""
        group = self.life.coordinator.shard.groups.get(self.group.plan.group_id)
        if isinstance(group, ConsumerGroup):
            member = group.members.get(self.member_id)
            return (
                member is not None
                and member.epoch == self.epoch
                and (member.classic is not None) == self.classic
            )
        if isinstance(group, ClassicGroup):
            return (
                self.classic
                and self.member_id in group.members
                and group.generation == self.epoch
                and group.state in (STABLE, PREPARING)
            )
        return False

    def settle(self) -> None:
        """See whether the client is at rest now; if it isn't, its commits are requests."""
        life = self.life
        at_rest = (
            self.running
            and not self.cut_off
            and not self.leaving
            and self.group.plan.kind != "transactional"
            and bool(self.rows)
            and self.acceptable()
            and all(life.exists(self, name, topic) for name, _, topic in self.rows)
        )
        if at_rest and not self.at_rest:
            self.told = life.now
        elif self.at_rest and not at_rest:
            self.tell(life.now)
        self.at_rest = at_rest
        if not at_rest and self.running and self.rows:
            self._ask_next()

    def unsettle(self, before: int) -> None:
        """The coordinator thinks otherwise of the client since ``before``: see anew."""
        if self.at_rest and not self.acceptable():
            self.tell(before)
            self.at_rest = False
            self._ask_next()

    def tell(self, until: int) -> None:
        """Write what was committed up to a time."""
        if not self.at_rest or until <= self.told:
            return
        times = ticks(
            self.first_tick, self.group.plan.commit_interval, self.told, until, self.number
        )
        self.told = until
        if len(times) == 0:
            return
        self.life.add_commits(self, self.commits_at(times))
        if self.classic:
            self._keep_session(int(times[-1]))

    def upcoming(self, until: int) -> Commits | None:
        """What the client will commit from now to a time, if it is left alone."""
        interval = self.group.plan.commit_interval
        times = ticks(self.first_tick, interval, self.told, until, self.number)
        return self.commits_at(times) if len(times) else None

    def commits_at(self, times: Any) -> Commits:
        """What the client commits at these times."""
        places, width = self.life.places, len(self.numbers)
        count = len(times) * width
        offsets = places.offsets(self.numbers, times)
        return Commits(
            time=np.repeat(times, width),
            client=np.full(count, self.number, np.int64),
            row=np.arange(count),
            place=np.tile(self.numbers, len(times)),
            offset=offsets.reshape(-1),
            leader=np.tile(places.leaders(self.numbers), len(times)),
            metadata=np.full(count, self.metadata, np.int64),
            topic_id=np.tile(self.topic_ids, len(times)),
        )

    def _keep_session(self, at: int) -> None:
        """A commit keeps a classic member's session, as a heartbeat does."""
        shard = self.life.coordinator.shard
        group = shard.groups.get(self.group.plan.group_id)
        if isinstance(group, ClassicGroup) and self.member_id in group.members:
            key = f"classic-session-{group.group_id}-{self.member_id}"
            due = shard.timers.due_of(key)
            member = group.members[self.member_id]
            if due is None or due < at + member.session_timeout:
                now, shard.now = shard.now, at
                keep_classic_session(shard, group, member)
                shard.now = now

    # Commits one by one

    def _ask_next(self) -> None:
        """Commit at the next interval by a request, unless the client is at rest by then."""
        if self.asking > self.life.now:
            return
        interval = self.group.plan.commit_interval
        number = max(0, (self.life.now - self.first_tick) // interval) + 1
        delay = late(np.array([number]), self.number, interval)
        at = self.first_tick + number * interval + int(delay[0])
        self.asking = at
        self.life.at(at, self._ask)

    def _ask(self) -> None:
        if not self.running or self.at_rest:
            return
        if self.cut_off or not self.rows:
            return
        self.commit(lambda _: None)
        self.settle()

    def commit(self, then: Callable[[Json | None], None]) -> None:
        """Commit what the client has read so far, by a request of its own."""
        if not self.rows:
            then({})
            return
        self.group.commit(self, then)
