"""Answers about groups that are broken, late, or not what was asked for."""

from __future__ import annotations

import struct
import time

import pytest

from kip848_spark.kafka.broker_connection import compact
from kip848_spark.kafka.coordinators import ask_coordinators
from kip848_spark.kafka.group_descriptions import describe_groups
from kip848_spark.kafka.group_offsets import committed_offsets
from kip848_spark.kafka.snapshot import NO_COORDINATOR, NO_TOPIC_NAMES, UNREADABLE_ANSWER
from tests.kafka.broken_broker import (
    CONSUMER_DESCRIBE,
    DESCRIBE,
    FIND_COORDINATOR,
    OFFSET_FETCH,
    BrokenBroker,
    array,
    no_offsets,
)

NAMES = [f"g{number:03d}" for number in range(250)]


@pytest.mark.parametrize("bad", [b"\x0f", b"\xff" * 5, compact("g") + b"\x03\x04\xff\xfe\xfd"])
def test_one_answer_that_cannot_be_read(bad: bytes) -> None:
    """It costs the other groups of its request nothing."""

    def answer(names: list[str]) -> bytes:
        return bad if "g050" in names else no_offsets(names)

    with BrokenBroker({OFFSET_FETCH: answer}) as broker:
        found = committed_offsets(broker.cluster(10), NAMES)
        assert found.refused == {"g050": UNREADABLE_ANSWER}
        assert found.answers.keys() == set(NAMES) - {"g050"}
        sizes = [len(names) for api, names in broker.seen if api == OFFSET_FETCH]
    assert sizes == [100, 100, 50, *[10] * 10, *[1] * 10]


def test_groups_that_nobody_asked_for() -> None:
    with BrokenBroker({OFFSET_FETCH: lambda names: no_offsets([*names, "intruder"])}) as broker:
        assert committed_offsets(broker.cluster(10), ["mine"]).answers == {"mine": ()}


def test_an_answer_byte_by_byte() -> None:
    """Each byte comes in time, and the answer never ends."""
    with BrokenBroker({OFFSET_FETCH: no_offsets}, pause=0.2) as broker:
        started = time.monotonic()
        found = committed_offsets(broker.cluster(1.5), ["g"])
        assert found.unasked == {"g"}, "nobody said who the coordinator is"
        assert time.monotonic() - started < 10


def test_a_coordinator_that_hangs() -> None:
    """Its groups get another one while it is asked."""
    with BrokenBroker({}) as first, BrokenBroker({OFFSET_FETCH: no_offsets}) as second:

        def answer(names: list[str]) -> bytes:
            first.coordinator = second
            time.sleep(30)
            return b""

        first.answers[OFFSET_FETCH] = answer
        assert committed_offsets(first.cluster(3), ["g"]).answers == {"g": ()}
        assert [api for api, _ in first.seen].count(FIND_COORDINATOR) == 2


def test_a_coordinator_that_never_answers() -> None:
    with BrokenBroker({OFFSET_FETCH: no_offsets}) as broker, BrokenBroker({}) as silent:
        silent.silent = True
        broker.coordinator = silent
        started = time.monotonic()
        found = committed_offsets(broker.cluster(1.5), ["g"])
        assert found.refused == {"g": NO_COORDINATOR}
        assert time.monotonic() - started < 10


def test_how_kafka_3_7_describes_groups() -> None:
    """In small letters, and with the ids of topics alone."""

    def describe(names: list[str]) -> bytes:
        rows = []
        for name in names:
            topics = array([bytes(16) + b"\x01" + array([bytes(4)]) + b"\0"] * (name == "busy"))
            member = compact("m") + b"\0\0" + bytes(4) + compact("c") + compact("/h")
            member += array([]) + b"\0" + (topics + b"\0") * 2 + b"\0\0"
            head = b"\0\0\0" + compact(name) + compact("stable") + struct.pack(">ii", 2, 2)
            rows.append(head + compact("range") + array([member]) + bytes(4) + b"\0")
        return array(rows)

    with BrokenBroker({CONSUMER_DESCRIBE: describe}) as broker:
        found = describe_groups(broker.cluster(5), ["busy", "idle"])
    assert found.refused == {"busy": NO_TOPIC_NAMES}
    assert found.answers["idle"].state == "Stable"


def test_a_group_without_a_name_is_no_consumer_group() -> None:
    """A broker before Kafka 4.0.1 would refuse all groups of the request with it."""
    asked: list[str] = []

    def describe(names: list[str]) -> bytes:
        asked.extend(names)
        head = struct.pack(">h", 69) + b"\0"
        rest = compact("Dead") + bytes(8) + compact("") + array([]) + bytes(4) + b"\0"
        return array([head + compact(name) + rest for name in names])

    def classic(names: list[str]) -> bytes:
        rest = compact("Empty") + compact("") + compact("") + array([]) + bytes(4) + b"\0"
        return array([b"\0\0" + compact(name) + rest for name in names])

    with BrokenBroker({CONSUMER_DESCRIBE: describe, DESCRIBE: classic}) as broker:
        found = describe_groups(broker.cluster(5), ["", "a"])
    assert asked == ["a"]
    assert {name: one.simple for name, one in found.answers.items()} == {"": True, "a": True}


def test_nothing_to_ask() -> None:
    with BrokenBroker({}) as broker:
        assert ask_coordinators(broker.cluster(1), [], lambda *_: 1 / 0).answers == {}
        assert broker.seen == []
