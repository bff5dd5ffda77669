"""An injected fault is found, in its group and at its place."""

from __future__ import annotations

import pytest

from tests.audit.fault_rates import rate, real_logs, simulated_logs
from tests.audit.faults import FAULTS, UNDETECTABLE

FEW, MANY = 30, 250
LEAST = 0.99
MOST_MISSED = 1
"""Of `FEW`: up to one in a hundred places shows nothing of its fault."""


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found(name: str) -> None:
    found = rate(name, FAULTS[name], FEW, (*real_logs(), *simulated_logs()))
    assert found.injected > 0
    assert len(found.missed) <= MOST_MISSED, found.missed


@pytest.mark.long
@pytest.mark.parametrize("name", FAULTS)
def test_hundreds_of_faults_are_found(name: str) -> None:
    found = rate(name, FAULTS[name], MANY, (*real_logs(), *simulated_logs()))
    assert found.found >= LEAST * found.injected, found.missed


@pytest.mark.slow
@pytest.mark.parametrize("name", UNDETECTABLE)
def test_an_undetectable_fault_is_rarely_found(name: str) -> None:
    """A kind that is found as a rule belongs into the other list."""
    found = rate(name, UNDETECTABLE[name][0], FEW, (*real_logs(), *simulated_logs()))
    assert found.found <= 0.1 * found.injected
