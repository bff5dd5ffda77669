"""Scenarios of consumer groups, one function each, run with real consumers against a real broker.

At the end of a scenario its consumers are still running but idle, so that the state rebuilt from
the topic can be compared with what the broker reports.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Self

from kip848_spark.local.broker import Broker
from kip848_spark.local.consumer_process import ConsumerProcess
from kip848_spark.local.testbed import BrokerTestbed

ScenarioState = Literal["started", "done"]
OnScenario = Callable[[str, ScenarioState], None]
"""Called with a scenario's title when it starts and when it is done, from any thread."""

_AT_ONCE = 4
_STAYS_AWAY_MS = str(60 * 60 * 1000)

SETTINGS = {"group.consumer.max.session.timeout.ms": _STAYS_AWAY_MS, "broker.rack": "rack-a"}
"""Broker settings that the scenarios need: a static member may stay away for an hour."""


def three_join(testbed: BrokerTestbed) -> None:
    """A, B and C join foo(3), one after another"""
    group = "demo.three"
    for shape, name in (((3,), "A"), ((2, 1), "B"), ((1, 1, 1), "C")):
        member = testbed.join(group, ["foo"], client_id=name)
        testbed.wait_until_stable(group, *shape)
        topic, partition = member.wait_for_partitions()[0]
        member.commit([(topic, partition, 10, f"by {name}")])


def uniform(testbed: BrokerTestbed) -> None:
    """The uniform assignor, two members in two racks, two topics"""
    group = "demo.uniform"
    members = [
        testbed.join(group, ["orders", "payments"], assignor="uniform", client_id=name, rack=rack)
        for name, rack in (("uniform-1", "rack-a"), ("uniform-2", "rack-b"))
    ]
    testbed.wait_until_stable(group, 5, 5)
    for step in (1, 2, 3):
        _commit_all(members, step * 100)
    members[0].subscribe(["orders"])
    testbed.wait_until(
        group,
        lambda found: all(
            member.assigned == member.target
            and (member.client_id != "uniform-1" or {t for t, _ in member.assigned} == {"orders"})
            for member in found.members
        ),
        "drop a topic",
    )
    testbed.wait_until_stable(group, 5, 5)


def range_(testbed: BrokerTestbed) -> None:
    """The range assignor, three members, one of them leaves"""
    group = "demo.range"
    members = [
        testbed.join(group, ["orders", "payments"], assignor="range", client_id=f"range-{n}")
        for n in (1, 2, 3)
    ]
    testbed.wait_until_stable(group, 4, 3, 3)
    members[2].close()
    testbed.wait_until_stable(group, 5, 5)
    _commit_all(members[:2], 7)


def killed(testbed: BrokerTestbed) -> None:
    """A member is killed, and its session expires"""
    group = "demo.killed"
    testbed.configure_group(group, consumer_session_timeout_ms="2000")
    stays, dies = (testbed.join(group, ["foo"], client_id=name) for name in ("stays", "dies"))
    testbed.wait_until_stable(group, 2, 1)
    dies.kill()
    testbed.wait_until_stable(group, 3)
    stays.commit([("foo", 0, 1, ""), ("foo", 1, 1, ""), ("foo", 2, 1, "")])
    # From here on, no session may expire because the machine is busy.
    testbed.configure_group(group, consumer_session_timeout_ms="60000")


def grown(testbed: BrokerTestbed) -> None:
    """Partitions are added to a topic"""
    group = "demo.grown"
    members = [testbed.join(group, ["growing"], client_id=f"grown-{n}") for n in (1, 2)]
    testbed.wait_until_stable(group, 1, 1)
    testbed.add_partitions("growing", 5)
    testbed.wait_until_stable(group, 3, 2)
    _commit_all(members, 3)


def stuck(testbed: BrokerTestbed) -> None:
    """A member hangs and gives nothing back; another one waits for it"""
    group = "demo.stuck"
    patient = {"max.poll.interval.ms": _STAYS_AWAY_MS}
    hangs = testbed.join(group, ["foo"], client_id="hangs", config=patient)
    testbed.wait_until_stable(group, 3)
    hangs.stall()
    testbed.join(group, ["foo"], client_id="waits", config=patient)
    # What is to be given back is part of the assignment that 4.3 tells of, and not of 4.0's:
    # the targets say the same in both.
    testbed.wait_until(
        group,
        lambda found: (
            {one.client_id: len(one.target or ()) for one in found.members}
            == {"hangs": 2, "waits": 1}
        ),
        "get stuck",
    )


def static(testbed: BrokerTestbed) -> None:
    """Static members leave for a while; one comes back, one does not"""
    group = "demo.static"
    testbed.configure_group(group, consumer_session_timeout_ms=_STAYS_AWAY_MS)
    members = {
        name: testbed.join(group, ["payments"], instance_id=name, client_id=name)
        for name in ("static-1", "static-2", "static-3")
    }
    testbed.wait_until_stable(group, 2, 1, 1)
    held = members["static-1"].wait_for_partitions()
    _commit_all(list(members.values()), 21)
    members["static-1"].close()
    members["static-1"] = testbed.join(
        group, ["payments"], instance_id="static-1", client_id="static-1"
    )
    testbed.wait_until_stable(group, 2, 1, 1)
    testbed.wait_until(
        group,
        lambda found: any(
            member.instance_id == "static-1" and list(member.assigned) == held
            for member in found.members
        ),
        "give a static member its partitions back",
    )
    members["static-3"].close()


def regex(testbed: BrokerTestbed) -> None:
    """A subscription by regular expression, and a new topic that matches it"""
    group = "demo.regex"
    members = [testbed.join(group, ["^metrics-.*"], client_id=f"regex-{n}") for n in (1, 2)]
    testbed.wait_until_stable(group, 2, 1)
    testbed.create_topics(metrics_disk=3)
    testbed.wait_until_stable(group, 3, 3)
    _commit_all(members, 4)


def classic_range(testbed: BrokerTestbed) -> None:
    """A classic group with the range assignor"""
    group = "demo.classic-range"
    first = _classic(testbed, group, "range", 1)
    testbed.wait_until_stable(group, 6)
    second = _classic(testbed, group, "range", 2)
    testbed.wait_until_stable(group, 3, 3)
    _commit_all([first, second], 50)


def classic_sticky(testbed: BrokerTestbed) -> None:
    """A classic group that rebalances cooperatively"""
    group = "demo.classic-sticky"
    members = [_classic(testbed, group, "cooperative-sticky", 1)]
    testbed.wait_until_stable(group, 6)
    members.append(_classic(testbed, group, "cooperative-sticky", 2))
    testbed.wait_until_stable(group, 3, 3)
    members.append(_classic(testbed, group, "cooperative-sticky", 3))
    testbed.wait_until_stable(group, 2, 2, 2)
    members.pop(1).close()
    testbed.wait_until_stable(group, 3, 3)
    _commit_all(members, 60)


def migrated(testbed: BrokerTestbed) -> None:
    """A classic group goes over to the consumer protocol, member by member"""
    group = "demo.migrated"
    old = [_classic(testbed, group, "range", n) for n in (1, 2)]
    testbed.wait_until_stable(group, 3, 3, kind="classic")
    _commit_all(old, 70)
    new = [testbed.join(group, ["orders"], client_id="new-1")]
    testbed.wait_until_stable(group, 2, 2, 2, kind="consumer")
    old[0].close()
    testbed.wait_until_stable(group, 3, 3)
    new.append(testbed.join(group, ["orders"], client_id="new-2"))
    testbed.wait_until_stable(group, 2, 2, 2)
    old[1].close()
    testbed.wait_until_stable(group, 3, 3, kind="consumer")
    _commit_all(new, 71)


def half_migrated(testbed: BrokerTestbed) -> None:
    """A migration that stops half way: both protocols in one group"""
    group = "demo.half-migrated"
    old = _classic(testbed, group, "cooperative-sticky", 1)
    testbed.wait_until_stable(group, 6, kind="classic")
    new = testbed.join(group, ["orders"], client_id="new-1")
    testbed.wait_until_stable(group, 3, 3, kind="consumer")
    _commit_all([old, new], 80)


def returned(testbed: BrokerTestbed) -> None:
    """A group goes back from the consumer protocol to the classic one"""
    group = "demo.returned"
    new = [testbed.join(group, ["orders"], client_id=f"new-{n}") for n in (1, 2)]
    testbed.wait_until_stable(group, 3, 3, kind="consumer")
    _commit_all(new, 90)
    old = _classic(testbed, group, "range", 1)
    testbed.wait_until_stable(group, 2, 2, 2, kind="consumer")
    new[0].close()
    testbed.wait_until_stable(group, 3, 3, kind="consumer")
    new[1].close()
    testbed.wait_until_stable(group, 6, kind="classic")
    _commit_all([old], 91)


def transactional(testbed: BrokerTestbed) -> None:
    """Offsets committed in transactions, some of them aborted"""
    group = "demo.transactions"
    member = testbed.join(group, ["payments"], client_id="transactional")
    testbed.wait_until_stable(group, 4)
    for offset, commits in ((100, True), (200, False), (300, True), (400, False)):
        offsets = [("payments", n, offset + n, "") for n in range(4)]
        member.transact("demo-txn", offsets, commit=commits)
    member.transact("demo-txn-2", [("payments", 3, 999, "never")], commit=False)


def manual(testbed: BrokerTestbed) -> None:
    """Commits by hand without joining: a rewind, metadata beyond ASCII"""
    member = testbed.join("demo.manual")
    member.assign([("foo", 0), ("foo", 1)])
    for offset, note in ((500, "bis hierher geprüft"), (1500, ""), (250, "zurück: 取り消し ⏪")):
        member.commit([("foo", 0, offset, note), ("foo", 1, offset, "")])
    member.kill()


def deleted(testbed: BrokerTestbed) -> None:
    """Groups that are deleted: of either protocol, and one topic under its offsets"""
    for group, protocol in (("demo.deleted", "consumer"), ("demo.deleted-classic", "classic")):
        member = testbed.join(group, ["foo"], protocol=protocol)
        testbed.wait_until_stable(group, 3)
        _commit_all([member], 5)
        member.close()
        testbed.wait_until_stable(group)
        testbed.delete_group(group)
    member = testbed.join("demo.topic-deleted")
    member.assign([("passing", 0)])
    member.commit([("passing", 0, 8, "soon gone"), ("foo", 0, 8, "stays")])
    member.kill()
    testbed.delete_topic("passing")


def emptied(testbed: BrokerTestbed) -> None:
    """Dead groups: everybody has left, the offsets stay"""
    for group, protocol in (("demo.emptied", "consumer"), ("demo.emptied-classic", "classic")):
        members = [testbed.join(group, ["foo"], protocol=protocol) for _ in (1, 2)]
        testbed.wait_until_stable(group, 2, 1)
        _commit_all(members, 6)
        for member in members:
            member.close()
        testbed.wait_until_stable(group)


SCENARIOS: tuple[Callable[[BrokerTestbed], None], ...] = (
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


def title(scenario: Callable[[BrokerTestbed], None]) -> str:
    """A line that describes a scenario."""
    return (scenario.__doc__ or scenario.__name__).strip()


@dataclass
class IdleConsumers:
    """The consumers of all scenarios: they are running but write nothing."""

    testbed: BrokerTestbed

    @property
    def members(self) -> list[ConsumerProcess]:
        """The running consumers."""
        return self.testbed.members

    def close(self) -> None:
        """Ends all consumers."""
        self.testbed.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def drive(broker: Broker, on_scenario: OnScenario | None = None) -> IdleConsumers:
    """Runs every scenario against a broker started with ``SETTINGS``, four at a time.

    Returns when all groups are idle. If anything fails, all consumers are ended.
    """
    tell = on_scenario or (lambda *_: None)
    testbed = BrokerTestbed(broker)

    def run(scenario: Callable[[BrokerTestbed], None]) -> None:
        tell(title(scenario), "started")
        scenario(testbed)
        tell(title(scenario), "done")

    pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="scenario")
    try:
        testbed.create_topics(foo=3, orders=6, payments=4, growing=2, passing=1)
        testbed.create_topics(metrics_cpu=2, metrics_net=1)
        testbed.create_offsets_topic()
        running = {pool.submit(run, scenario) for scenario in SCENARIOS}
        while running:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for one in done:
                one.result()
        testbed.wait_until_idle()
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        testbed.close()
        raise
    pool.shutdown()
    return IdleConsumers(testbed)


def _classic(testbed: BrokerTestbed, group: str, assignor: str, number: int) -> ConsumerProcess:
    return testbed.join(
        group, ["orders"], protocol="classic", assignor=assignor, client_id=f"classic-{number}"
    )


def _commit_all(members: list[ConsumerProcess], offset: int) -> None:
    for member in members:
        member.commit([(topic, n, offset + n, "") for topic, n in member.wait_for_partitions()])
