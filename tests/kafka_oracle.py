"""Kafka's own classes as an oracle: what a broker of some release makes of these bytes.

One Java process serves the whole test session and every release (see ``java/Oracle.java``). It is
started at the first question and ends with this process.

    oracle = Oracle()                       # or Oracle("4.0.2")
    oracle.decode([(key, value), ...])      # [{"type": 3, "key": {...}, "version": 0, ...}, ...]
    oracle.encode([{"key_type": 3, "version": 0, "key": {...}, "value": {...}}])

The JSON is what the release's ``*JsonConverter`` classes make: names in lower camel case, bytes in
base64, uuids in Kafka's own base64, no field that the version lacks, and no tagged number or uuid
at its default (a tagged struct or array is ``null`` there).
"""

from __future__ import annotations

import atexit
import functools
import importlib.util
import struct
import subprocess
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from kip848_spark.runtime.java import find_java
from tests.kafka_releases import NEWEST, record_jars

SUBSCRIPTION = "ConsumerProtocolSubscription"
ASSIGNMENT = "ConsumerProtocolAssignment"

_SOURCE = Path(__file__).parent / "java" / "Oracle.java"
_LIBRARIES = ("jackson-core-", "jackson-databind-", "jackson-annotations-", "slf4j-api-")
_MOST_RECORDS = 10_000
_MOST_BYTES = 16_000_000


class OracleError(Exception):
    """The Java side failed as a whole; what it says of one record is an answer, not this."""


class Encoded(NamedTuple):
    key: bytes | None
    value: bytes | None
    error: str | None


class Oracle:
    """One release's record classes."""

    def __init__(self, release: str = NEWEST) -> None:
        self.release = release
        _load(release)

    def decode(self, pairs: Iterable[tuple[bytes | None, bytes | None]]) -> list[dict[str, Any]]:
        """What the release's record serde reads, one dict a pair.

        ``type``, ``key``, ``version``, ``value`` (the latter two ``None`` for a tombstone) and
        ``canonical``: whether the release writes the same bytes again. Or only ``error``: the
        exception it raises.
        """
        answers: list[dict[str, Any]] = []
        for chunk in _chunks(pairs):
            frame = b"".join(
                piece for pair in chunk for piece in (_sized(pair[0]), _sized(pair[1]))
            )
            answers += orjson.loads(self._ask(b"D", struct.pack(">i", len(chunk)) + frame))
        return answers

    def encode(self, records: Sequence[dict[str, Any]]) -> list[Encoded]:
        """The bytes of records given as ``key_type``, ``version``, ``key``, ``value`` (JSON)."""
        answers: list[Encoded] = []
        for start in range(0, len(records), _MOST_RECORDS):
            asked = orjson.dumps(records[start : start + _MOST_RECORDS])
            answers += _encoded(self._ask(b"E", asked))
        return answers

    def decode_embedded(self, message: str, blobs: Sequence[bytes]) -> list[dict[str, Any]]:
        """What a consumer reads from ``SUBSCRIPTION`` or ``ASSIGNMENT`` bytes.

        ``version`` (as written), ``value``, ``rest`` (bytes it leaves unread), ``canonical``; or
        ``error``.
        """
        frame = struct.pack(">i", len(blobs)) + b"".join(map(_sized, blobs))
        answers: list[dict[str, Any]] = orjson.loads(self._ask(b"d", _text(message) + frame))
        return answers

    def encode_embedded(self, message: str, items: Sequence[dict[str, Any]]) -> list[Encoded]:
        """The bytes (as ``key``) of messages given as ``version`` and ``value``."""
        return list(_encoded(self._ask(b"e", _text(message) + orjson.dumps(items))))

    def _ask(self, what: bytes, frame: bytes) -> bytes:
        return _process().ask(what + _text(self.release) + frame)


class _Process:
    """The Java process and its pipe."""

    def __init__(self) -> None:
        library = _pyspark_jars()
        options = ["-XX:+UseSerialGC", "-Xms256m", "-Xmx1g", "-Dfile.encoding=UTF-8"]
        command = [find_java(), *options, "-cp", library, _SOURCE]
        self._pipe = subprocess.Popen(
            [str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._one_at_a_time = threading.Lock()
        atexit.register(self.close)

    def ask(self, request: bytes) -> bytes:
        assert self._pipe.stdin is not None
        assert self._pipe.stdout is not None
        with self._one_at_a_time:
            self._pipe.stdin.write(struct.pack(">i", len(request)) + request)
            self._pipe.stdin.flush()
            head = self._pipe.stdout.read(4)
            if len(head) < 4:
                raise OracleError(f"Java has ended with code {self._pipe.wait()}")
            answer = self._pipe.stdout.read(*struct.unpack(">i", head))
        if answer[0]:
            raise OracleError(answer[1:].decode())
        return answer[1:]

    def close(self) -> None:
        assert self._pipe.stdin is not None
        self._pipe.stdin.close()
        try:
            self._pipe.wait(10)
        except subprocess.TimeoutExpired:
            self._pipe.kill()


@functools.cache
def _process() -> _Process:
    return _Process()


@functools.cache
def _load(release: str) -> None:
    jars = [str(jar) for jar in record_jars(release)]
    frame = struct.pack(">i", len(jars)) + b"".join(map(_text, jars))
    _process().ask(b"L" + _text(release) + frame)


def _pyspark_jars() -> str:
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    folder = Path(spec.origin).parent / "jars"
    return ":".join(str(next(folder.glob(f"{name}[0-9]*.jar"))) for name in _LIBRARIES)


def _sized(data: bytes | None) -> bytes:
    return b"\xff\xff\xff\xff" if data is None else struct.pack(">i", len(data)) + data


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">H", len(data)) + data


def _chunks(
    pairs: Iterable[tuple[bytes | None, bytes | None]],
) -> Iterator[list[tuple[bytes | None, bytes | None]]]:
    chunk: list[tuple[bytes | None, bytes | None]] = []
    size = 0
    for key, value in pairs:
        chunk.append((key, value))
        size += len(key or b"") + len(value or b"")
        if len(chunk) == _MOST_RECORDS or size > _MOST_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _encoded(answer: bytes) -> Iterator[Encoded]:
    at = 0

    def sized() -> bytes | None:
        nonlocal at
        (length,) = struct.unpack_from(">i", answer, at)
        at += 4
        if length < 0:
            return None
        at += length
        return answer[at - length : at]

    while at < len(answer):
        failed = answer[at]
        at += 1
        if failed:
            yield Encoded(None, None, (sized() or b"").decode())
        else:
            yield Encoded(sized(), sized(), None)
