"""No missed fault: what is put into a real log is found, in its group, at its place."""

from __future__ import annotations

import pytest

from tests.audit.faults import FAULTS, UNDETECTABLE
from tests.audit.rates import rate

FEW, MANY = 6, 75
LEAST = 0.99
SLACK = {"targets_exchanged": 0.97}
"""Members whose ids fall into one bucket may be visited in either order, so that either target is
one that a broker might have made; only the next assignments show that it was another's."""


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found(name: str) -> None:
    found = rate(name, FAULTS[name], FEW)
    assert found.injected > 0
    assert len(found.missed) <= (name in SLACK), found.missed


@pytest.mark.long
@pytest.mark.parametrize("name", FAULTS)
def test_hundreds_of_faults_are_found(name: str) -> None:
    found = rate(name, FAULTS[name], MANY)
    assert found.found >= SLACK.get(name, LEAST) * found.injected, found.missed


@pytest.mark.parametrize("name", UNDETECTABLE)
def test_what_no_log_can_show_is_not_claimed(name: str) -> None:
    """Were one of these found, it should be in the other list."""
    found = rate(name, UNDETECTABLE[name][0], FEW)
    assert found.injected > 0
    assert found.found == 0
