"""No missed fault: what is put into a real log is found, in its group, at its place."""

from __future__ import annotations

import pytest

from tests.audit.fault_rates import rate
from tests.audit.faults import FAULTS, UNDETECTABLE

FEW, MANY = 30, 250
LEAST = 0.99


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found(name: str) -> None:
    found = rate(name, FAULTS[name], FEW)
    assert found.injected > 0
    assert found.missed == []


@pytest.mark.long
@pytest.mark.parametrize("name", FAULTS)
def test_hundreds_of_faults_are_found(name: str) -> None:
    found = rate(name, FAULTS[name], MANY)
    assert found.found >= LEAST * found.injected, found.missed


@pytest.mark.parametrize("name", UNDETECTABLE)
def test_what_no_log_can_show_is_not_claimed(name: str) -> None:
    """Were it found as a rule, it should be in the other list."""
    found = rate(name, UNDETECTABLE[name][0], FEW)
    assert found.found <= 0.1 * found.injected
