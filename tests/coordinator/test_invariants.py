"""A Hypothesis state machine over the coordinator. Mutants that break a rule must fail
its checks.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.coordinator.clients import NAMES, TOPICS, Clients, random_runs
from tests.coordinator.mutants import MUTANTS


class Machine(RuleBasedStateMachine):
    """Any event may happen to a group, in any order."""

    release = "4.3"

    @initialize(size=st.integers(1, 6))
    def start(self, size: int) -> None:
        self.clients = Clients(self.release)
        self.clients.topic("foo", size)

    @rule(name=st.sampled_from(NAMES), owned=st.booleans())
    def heartbeat(self, name: str, owned: bool) -> None:
        self.clients.heartbeat(name, owned=owned)

    @rule(name=st.sampled_from(NAMES))
    def obey(self, name: str) -> None:
        if name in self.clients.epochs:
            self.clients.apply_assignment(name)

    @rule(name=st.sampled_from(NAMES), topics=st.sampled_from((["foo"], ["bar"], ["foo", "bar"])))
    def subscribe(self, name: str, topics: list[str]) -> None:
        self.clients.heartbeat(name, subscribedTopicNames=topics)

    @precondition(lambda self: self.clients.epochs)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.clients.epochs)))
        self.clients.heartbeat(name, memberEpoch=-1)
        self.clients.reset(name)

    @rule(name=st.sampled_from(sorted(TOPICS)), more=st.integers(1, 3))
    def grow(self, name: str, more: int) -> None:
        self.clients.topic(name, self.clients.sizes[name] + more)

    @rule(seconds=st.sampled_from((1, 10, 21, 46)))
    def wait(self, seconds: int) -> None:
        self.clients.wait(seconds * 1_000)

    @rule(name=st.sampled_from(NAMES))
    def crash_and_restart(self, name: str) -> None:
        self.clients.crash(name)
        self.clients.heartbeat(name)

    @invariant()
    def safe(self) -> None:
        if hasattr(self, "clients"):
            self.clients.check()

    def teardown(self) -> None:
        if hasattr(self, "clients"):
            self.clients.check_converges()


_QUICK = settings(
    max_examples=40,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize("release", ["kip", "4.0", "4.1", "4.2", "4.3"])
def test_random_run_is_safe_and_converges(release: str) -> None:
    run_state_machine_as_test(type("M", (Machine,), {"release": release}), settings=_QUICK)


@pytest.mark.long
@pytest.mark.parametrize("release", ["kip", "4.0", "4.1", "4.2", "4.3"])
def test_a_thousand_random_runs(release: str) -> None:
    thorough = settings(_QUICK, max_examples=1_000, stateful_step_count=50)
    run_state_machine_as_test(type("M", (Machine,), {"release": release}), settings=thorough)


@pytest.mark.parametrize("release", ["4.0", "4.3"])
def test_unmodified_coordinator_passes(release: str) -> None:
    random_runs(release)


@pytest.mark.parametrize("name", [name for name in MUTANTS if name != "accepts any epoch"])
def test_mutant_is_detected(name: str) -> None:
    with MUTANTS[name](), pytest.raises(Exception):  # noqa: B017, PT011 - any failure detects it
        random_runs("4.3")


def test_coordinator_that_accepts_any_epoch_is_detected() -> None:
    clients = Clients("4.3")
    clients.topic("foo", 2)
    clients.heartbeat("A")
    assert clients.heartbeat("A", memberEpoch=9)["errorCode"] == "FENCED_MEMBER_EPOCH"
    clients.heartbeat("A")
    with MUTANTS["accepts any epoch"]():
        assert clients.heartbeat("A", memberEpoch=9)["errorCode"] != "FENCED_MEMBER_EPOCH"
