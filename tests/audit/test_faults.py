"""An injected fault is found, in its group and at its place."""

from __future__ import annotations

import pytest

from tests.audit.fault_rates import rate, real_logs, simulated_logs
from tests.audit.faults import FAULTS, UNDETECTABLE

FEW, MANY = 30, 250
LEAST = 0.99
MISSED = {
    "unbalanced_target": "a target that another order of the members explains",
    "target_of_unsubscribed_topic": "the member's next assignment shows it, later than counted",
    "lost_target": "the target did not change, or is found later than counted",
    "wrong_assignment_epoch": "a partition whose owner left has no epoch to compare",
    "assignment_of_another_group": "the other group may have had the same assignment",
    "assignment_of_another_member": "the other member may have had the same assignment",
    "split_operation": "both parts are operations of their own",
    "lost_operation": "a later operation replaced all that was lost",
    "wrong_topic_metadata": "no target shows the partitions before the topic changes",
}
"""Kinds of which a place in a hundred shows nothing: one miss in `FEW`. Of the others, none."""


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found(name: str) -> None:
    found = rate(name, FAULTS[name], FEW, (*real_logs(), *simulated_logs()))
    assert found.injected > 0
    assert len(found.missed) <= (name in MISSED), found.missed


@pytest.mark.long
@pytest.mark.parametrize("name", FAULTS)
def test_hundreds_of_faults_are_found(name: str) -> None:
    found = rate(name, FAULTS[name], MANY, (*real_logs(), *simulated_logs()))
    assert found.found >= LEAST * found.injected, found.missed


@pytest.mark.parametrize("name", UNDETECTABLE)
def test_an_undetectable_fault_is_rarely_found(name: str) -> None:
    """A kind that is found as a rule belongs into the other list."""
    found = rate(name, UNDETECTABLE[name][0], FEW, (*real_logs(), *simulated_logs()))
    assert found.found <= 0.1 * found.injected
