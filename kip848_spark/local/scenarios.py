"""What can happen to consumer groups, done for real: one function a scenario.

The groups are left as the last step leaves them, their consumers running and quiet, so that what
is rebuilt from the topic can be held against what the broker says of them.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Self

from kip848_spark.local.broker import Broker
from kip848_spark.local.consumer_process import Member
from kip848_spark.local.testbed import Stage

Step = Literal["started", "done"]
OnStep = Callable[[str, Step], None]
"""Told a scenario's title when it starts and when it is done, from any thread."""

_AT_ONCE = 4
_STAYS_AWAY_MS = str(60 * 60 * 1000)

SETTINGS = {"group.consumer.max.session.timeout.ms": _STAYS_AWAY_MS, "broker.rack": "rack-a"}
"""What the broker needs beyond its defaults: a static member may stay away for an hour."""


def three_join(stage: Stage) -> None:
    """A, B and C join foo(3), one after another"""
    group = "demo.three"
    for shape, name in (((3,), "A"), ((2, 1), "B"), ((1, 1, 1), "C")):
        member = stage.join(group, ["foo"], client_id=name)
        stage.settled(group, *shape)
        topic, partition = member.held()[0]
        member.commit([(topic, partition, 10, f"by {name}")])


def uniform(stage: Stage) -> None:
    """The uniform assignor, two members in two racks, two topics"""
    group = "demo.uniform"
    members = [
        stage.join(group, ["orders", "payments"], assignor="uniform", client_id=name, rack=rack)
        for name, rack in (("uniform-1", "rack-a"), ("uniform-2", "rack-b"))
    ]
    stage.settled(group, 5, 5)
    for step in (1, 2, 3):
        _commit_all(members, step * 100)
    members[0].subscribe(["orders"])
    stage.until(
        group,
        lambda found: all(
            member.assigned == member.target
            and (member.client_id != "uniform-1" or {t for t, _ in member.assigned} == {"orders"})
            for member in found.members
        ),
        "drop a topic",
    )
    stage.settled(group, 5, 5)


def range_(stage: Stage) -> None:
    """The range assignor, three members, one of them leaves"""
    group = "demo.range"
    members = [
        stage.join(group, ["orders", "payments"], assignor="range", client_id=f"range-{n}")
        for n in (1, 2, 3)
    ]
    stage.settled(group, 4, 3, 3)
    members[2].close()
    stage.settled(group, 5, 5)
    _commit_all(members[:2], 7)


def killed(stage: Stage) -> None:
    """A member is killed, and its session expires"""
    group = "demo.killed"
    stage.configure_group(group, consumer_session_timeout_ms="2000")
    stays, dies = (stage.join(group, ["foo"], client_id=name) for name in ("stays", "dies"))
    stage.settled(group, 2, 1)
    dies.kill()
    stage.settled(group, 3)
    stays.commit([("foo", 0, 1, ""), ("foo", 1, 1, ""), ("foo", 2, 1, "")])
    # Nobody else is to expire here while the machine is busy.
    stage.configure_group(group, consumer_session_timeout_ms="60000")


def grown(stage: Stage) -> None:
    """Partitions are added to a topic"""
    group = "demo.grown"
    members = [stage.join(group, ["growing"], client_id=f"grown-{n}") for n in (1, 2)]
    stage.settled(group, 1, 1)
    stage.grow("growing", 5)
    stage.settled(group, 3, 2)
    _commit_all(members, 3)


def stuck(stage: Stage) -> None:
    """A member hangs and gives nothing back; another one waits for it"""
    group = "demo.stuck"
    patient = {"max.poll.interval.ms": _STAYS_AWAY_MS}
    hangs = stage.join(group, ["foo"], client_id="hangs", config=patient)
    stage.settled(group, 3)
    hangs.stall()
    stage.join(group, ["foo"], client_id="waits", config=patient)
    # What is to be given back is part of the assignment that 4.3 tells of, and not of 4.0's:
    # the targets say the same in both.
    stage.until(
        group,
        lambda found: (
            {one.client_id: len(one.target or ()) for one in found.members}
            == {"hangs": 2, "waits": 1}
        ),
        "get stuck",
    )


def static(stage: Stage) -> None:
    """Static members leave for a while; one comes back, one does not"""
    group = "demo.static"
    stage.configure_group(group, consumer_session_timeout_ms=_STAYS_AWAY_MS)
    members = {
        name: stage.join(group, ["payments"], instance_id=name, client_id=name)
        for name in ("static-1", "static-2", "static-3")
    }
    stage.settled(group, 2, 1, 1)
    held = members["static-1"].held()
    _commit_all(list(members.values()), 21)
    members["static-1"].close()
    members["static-1"] = stage.join(
        group, ["payments"], instance_id="static-1", client_id="static-1"
    )
    stage.settled(group, 2, 1, 1)
    stage.until(
        group,
        lambda found: any(
            member.instance_id == "static-1" and list(member.assigned) == held
            for member in found.members
        ),
        "give a static member its partitions back",
    )
    members["static-3"].close()


def regex(stage: Stage) -> None:
    """A subscription by regular expression, and a new topic that matches it"""
    group = "demo.regex"
    members = [stage.join(group, ["^metrics-.*"], client_id=f"regex-{n}") for n in (1, 2)]
    stage.settled(group, 2, 1)
    stage.topics(metrics_disk=3)
    stage.settled(group, 3, 3)
    _commit_all(members, 4)


def classic_range(stage: Stage) -> None:
    """A classic group with the range assignor"""
    group = "demo.classic-range"
    first = _classic(stage, group, "range", 1)
    stage.settled(group, 6)
    second = _classic(stage, group, "range", 2)
    stage.settled(group, 3, 3)
    _commit_all([first, second], 50)


def classic_sticky(stage: Stage) -> None:
    """A classic group that rebalances cooperatively"""
    group = "demo.classic-sticky"
    members = [_classic(stage, group, "cooperative-sticky", 1)]
    stage.settled(group, 6)
    members.append(_classic(stage, group, "cooperative-sticky", 2))
    stage.settled(group, 3, 3)
    members.append(_classic(stage, group, "cooperative-sticky", 3))
    stage.settled(group, 2, 2, 2)
    members.pop(1).close()
    stage.settled(group, 3, 3)
    _commit_all(members, 60)


def migrated(stage: Stage) -> None:
    """A classic group goes over to the consumer protocol, member by member"""
    group = "demo.migrated"
    old = [_classic(stage, group, "range", n) for n in (1, 2)]
    stage.settled(group, 3, 3, kind="classic")
    _commit_all(old, 70)
    new = [stage.join(group, ["orders"], client_id="new-1")]
    stage.settled(group, 2, 2, 2, kind="consumer")
    old[0].close()
    stage.settled(group, 3, 3)
    new.append(stage.join(group, ["orders"], client_id="new-2"))
    stage.settled(group, 2, 2, 2)
    old[1].close()
    stage.settled(group, 3, 3, kind="consumer")
    _commit_all(new, 71)


def half_migrated(stage: Stage) -> None:
    """A migration that stops half way: both protocols in one group"""
    group = "demo.half-migrated"
    old = _classic(stage, group, "cooperative-sticky", 1)
    stage.settled(group, 6, kind="classic")
    new = stage.join(group, ["orders"], client_id="new-1")
    stage.settled(group, 3, 3, kind="consumer")
    _commit_all([old, new], 80)


def returned(stage: Stage) -> None:
    """A group goes back from the consumer protocol to the classic one"""
    group = "demo.returned"
    new = [stage.join(group, ["orders"], client_id=f"new-{n}") for n in (1, 2)]
    stage.settled(group, 3, 3, kind="consumer")
    _commit_all(new, 90)
    old = _classic(stage, group, "range", 1)
    stage.settled(group, 2, 2, 2, kind="consumer")
    new[0].close()
    stage.settled(group, 3, 3, kind="consumer")
    new[1].close()
    stage.settled(group, 6, kind="classic")
    _commit_all([old], 91)


def transactional(stage: Stage) -> None:
    """Offsets committed in transactions, some of them aborted"""
    group = "demo.transactions"
    member = stage.join(group, ["payments"], client_id="transactional")
    stage.settled(group, 4)
    for offset, commits in ((100, True), (200, False), (300, True), (400, False)):
        offsets = [("payments", n, offset + n, "") for n in range(4)]
        member.transact("demo-txn", offsets, commit=commits)
    member.transact("demo-txn-2", [("payments", 3, 999, "never")], commit=False)


def manual(stage: Stage) -> None:
    """Commits by hand without joining: a rewind, metadata beyond ASCII"""
    member = stage.join("demo.manual")
    member.assign([("foo", 0), ("foo", 1)])
    for offset, note in ((500, "bis hierher geprüft"), (1500, ""), (250, "zurück: 取り消し ⏪")):
        member.commit([("foo", 0, offset, note), ("foo", 1, offset, "")])
    member.kill()


def deleted(stage: Stage) -> None:
    """Groups that are deleted: of either protocol, and one topic under its offsets"""
    for group, protocol in (("demo.deleted", "consumer"), ("demo.deleted-classic", "classic")):
        member = stage.join(group, ["foo"], protocol=protocol)
        stage.settled(group, 3)
        _commit_all([member], 5)
        member.close()
        stage.settled(group)
        stage.delete_group(group)
    member = stage.join("demo.topic-deleted")
    member.assign([("passing", 0)])
    member.commit([("passing", 0, 8, "soon gone"), ("foo", 0, 8, "stays")])
    member.kill()
    stage.drop("passing")


def emptied(stage: Stage) -> None:
    """Dead groups: everybody has left, the offsets stay"""
    for group, protocol in (("demo.emptied", "consumer"), ("demo.emptied-classic", "classic")):
        members = [stage.join(group, ["foo"], protocol=protocol) for _ in (1, 2)]
        stage.settled(group, 2, 1)
        _commit_all(members, 6)
        for member in members:
            member.close()
        stage.settled(group)


SCENARIOS: tuple[Callable[[Stage], None], ...] = (
    # The long ones first, so that the short ones fill the gaps.
    regex,
    migrated,
    returned,
    three_join,
    classic_sticky,
    static,
    killed,
    stuck,
    grown,
    half_migrated,
    classic_range,
    transactional,
    emptied,
    deleted,
    uniform,
    range_,
    manual,
)


def title(scenario: Callable[[Stage], None]) -> str:
    """The line that says what a scenario shows."""
    return (scenario.__doc__ or scenario.__name__).strip()


@dataclass
class Quiet:
    """All has been done; the consumers run and write nothing."""

    stage: Stage

    @property
    def members(self) -> list[Member]:
        """The consumers that run."""
        return self.stage.members

    def close(self) -> None:
        """End all consumers."""
        self.stage.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def drive(broker: Broker, on_step: OnStep | None = None) -> Quiet:
    """Run every scenario against a broker started with ``SETTINGS``, some of them at a time.

    Returns when all groups are at rest. Whatever goes wrong, no consumer is left behind.
    """
    tell = on_step or (lambda *_: None)
    stage = Stage(broker)

    def run(scenario: Callable[[Stage], None]) -> None:
        tell(title(scenario), "started")
        scenario(stage)
        tell(title(scenario), "done")

    pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="scenario")
    try:
        stage.topics(foo=3, orders=6, payments=4, growing=2, passing=1)
        stage.topics(metrics_cpu=2, metrics_net=1)
        stage.ready()
        running = {pool.submit(run, scenario) for scenario in SCENARIOS}
        while running:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for one in done:
                one.result()
        stage.quiet()
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        stage.close()
        raise
    pool.shutdown()
    return Quiet(stage)


def _classic(stage: Stage, group: str, assignor: str, number: int) -> Member:
    return stage.join(
        group, ["orders"], protocol="classic", assignor=assignor, client_id=f"classic-{number}"
    )


def _commit_all(members: list[Member], offset: int) -> None:
    for member in members:
        member.commit([(topic, n, offset + n, "") for topic, n in member.held()])
