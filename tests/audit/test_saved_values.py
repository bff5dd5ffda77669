"""Values of the audit as JSON: each comes back as it was, and nothing else is made of a text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kip848_spark.checks.log_entries import LogEntry, log_entry
from kip848_spark.checks.saved_values import decode, encode
from kip848_spark.coordinator import records
from kip848_spark.coordinator.consumer_group import Member, MemberState
from kip848_spark.coordinator.releases import RELEASES
from kip848_spark.coordinator.streams_group import StreamsMember, Tasks
from kip848_spark.coordinator.topics import Topic

_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
_KEYS: st.SearchStrategy[Hashable] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | _TEXTS | st.binary(max_size=4),
    lambda inner: st.lists(inner, max_size=3).map(tuple) | st.frozensets(inner, max_size=3),
    max_leaves=5,
)
_VALUES = st.recursive(
    _KEYS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.sets(_KEYS, max_size=3)
        | st.dictionaries(_KEYS, inner, max_size=3)
        | st.dictionaries(_KEYS, st.integers(0, 9), max_size=3).map(Counter)
    ),
    max_leaves=8,
)
_MEMBER = Member(
    "m", topic_names=frozenset({"a", "b"}), state=MemberState.UNKNOWN, assigned={"t": {2: 5, 1: 0}}
)
_TASKS = Tasks(frozenset({("sub", 1)}), frozenset({("sub", 2), ("sub", 3)}))


def back(value: object) -> object:
    return decode(orjson.loads(orjson.dumps(encode(value))))


@given(_VALUES)
def test_a_value_comes_back(value: object) -> None:
    """With its type, and its keys in their order."""
    found = back(value)
    assert found == value
    assert type(found) is type(value)
    if isinstance(value, dict):
        assert list(found) == list(value)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    "value",
    [
        _MEMBER,
        StreamsMember("m", {"processId": "p"}, assigned=_TASKS, since={("sub", 1): 3}),
        Topic("t", "id", 3, (("rack",), ())),
        tuple(RELEASES.values()),
    ],
)
def test_an_object_comes_back(value: object) -> None:
    found = back(value)
    assert found == value
    assert type(found) is type(value)


def test_an_enumeration_comes_back() -> None:
    """It equals the number that it stands for, so a comparison does not show the difference."""
    assert back(MemberState.UNKNOWN) is MemberState.UNKNOWN


def test_a_log_entry_comes_back() -> None:
    key = {"groupId": "g", "memberId": "m"}
    entry = log_entry(3, 4, 5, records.record(records.TARGET_MEMBER, 0, key, {"topics": []}))
    assert isinstance(back(entry), LogEntry)
    assert back(entry) == entry


def test_other_types_are_not_saved() -> None:
    with pytest.raises(TypeError, match="a range cannot be saved"):
        encode({"a": range(2)})


@pytest.mark.parametrize(
    "saved",
    [
        ["Popen", "ls"], ["os.system", "ls"], ["d", 1], ["r", "9.9"], ["Member"], [], {},
        ["MemberState", 99], ["b", 5], ["ConsumerGroup", "epoch"], ["t", ["t", ["eval", "1"]]],
    ],
)  # fmt: skip
def test_nothing_else_is_made(saved: object) -> None:
    with pytest.raises((LookupError, TypeError, ValueError)):
        decode(saved)
