"""What brokers answer about their features, and answers that no broker gives."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kip848_spark.insight.readiness_versions import KnownRelease, ReleaseRange
from kip848_spark.kafka.admin import Cluster
from kip848_spark.kafka.features import BrokerFeatures, broker_features
from kip848_spark.local.broker import CANONICAL, Broker

LOOPBACK = "127.0.0.1"


@contextmanager
def answering(answer: bytes) -> Iterator[int]:
    """The port of a server that gives one client this answer, whatever it asks."""
    with socket.create_server((LOOPBACK, 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(answer)

        thread = Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            thread.join()


def test_a_broker_says_its_release_line_and_group_version(broker: Broker) -> None:
    (found,) = Cluster(broker.bootstrap).features()
    assert found.group_version == 1
    words = KnownRelease.of_levels([found.metadata_version]).words
    assert words == ".".join(CANONICAL.split(".")[:2])


@given(st.binary(max_size=300))
def test_an_answer_of_something_else(octets: bytes) -> None:
    with answering(struct.pack(">i", len(octets)) + octets) as port:
        assert broker_features(LOOPBACK, port, {}) is None


@pytest.mark.parametrize(
    "octets", [b"", b"\0\0\0\x10abc", struct.pack(">i", -1), struct.pack(">i", 1 << 30)]
)
def test_an_answer_without_an_end(octets: bytes) -> None:
    with answering(octets) as port:
        assert broker_features(LOOPBACK, port, {}, timeout=2) is None


def test_nobody_answers() -> None:
    with socket.create_server((LOOPBACK, 0)) as server:
        port = server.getsockname()[1]
    assert broker_features(LOOPBACK, port, {}) is None


def test_an_answer_byte_by_byte() -> None:
    """The answer of a broker of 4.3.1, as the protocol defines it: no APIs, two features."""
    features = b"\x03" + b"\x0egroup.version\0\0\0\1\0" + b"\x11metadata.version\0\x07\0\x1e\0"
    finalized = b"\x02" + b"\x0egroup.version\0\1\0\1\0"
    tags = [b"\0" + bytes([len(features)]) + features, b"\2" + bytes([len(finalized)]) + finalized]
    body = struct.pack(">ih", 848, 0) + b"\1" + struct.pack(">i", 0) + b"\2" + b"".join(tags)
    with answering(struct.pack(">i", len(body)) + body) as port:
        assert broker_features(LOOPBACK, port, {}) == BrokerFeatures(30, 1)
    off = body.replace(finalized, b"\1").replace(bytes([2, len(finalized)]), b"\2\1")
    with answering(struct.pack(">i", len(off)) + off) as port:
        assert broker_features(LOOPBACK, port, {}) == BrokerFeatures(30, 0)


@pytest.mark.parametrize(
    ("levels", "words"),
    [
        ([], None),
        ([19], "before 4.0"),
        ([25, 25], "4.0"),
        ([29, 30], "4.2 to 4.3"),
        ([26], "4.0"),
        ([33], "4.4 or later"),
        ([40], "4.4 or later"),
        ([30, 33], "4.3 or later"),
    ],
)
def test_release_of_all_brokers(levels: list[int], words: str | None) -> None:
    assert KnownRelease.of_levels(levels).words == words


@pytest.mark.parametrize(
    ("levels", "range_", "answer"),
    [
        ([25], "<4.1", True),
        ([25], ">=4.0.1", None),
        ([27], "<4.1", False),
        ([29, 30], ">=4.3", None),
        ([29, 30], ">=4.2", True),
        ([33], ">=4.4", True),
        ([19], "<4.0", True),
        ([19], ">=4.0", False),
    ],
)
def test_a_line_answers_what_all_its_patch_releases_have(
    levels: list[int], range_: str, answer: bool | None
) -> None:
    rule = ReleaseRange.of(range_, (), None)
    assert rule.contains(KnownRelease.of_levels(levels)) is answer
