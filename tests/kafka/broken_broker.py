"""A server that answers as a broker does, with faults that a real broker can't be made to show."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Self

from kip848_spark.kafka.acls import KafkaClient
from kip848_spark.kafka.broker_connection import FieldReader, compact, unsigned_varint

API_VERSIONS, FIND_COORDINATOR, OFFSET_FETCH, DESCRIBE, CONSUMER_DESCRIBE = 18, 10, 9, 15, 69
_VERSIONS = {FIND_COORDINATOR: 4, OFFSET_FETCH: 8, DESCRIBE: 5, CONSUMER_DESCRIBE: 1}

Answer = Callable[[list[str]], bytes]
"""The body of an answer about these groups."""


class BrokenBroker:
    """Listens on the loopback interface, in a ``with`` statement. ``answers`` are by the key of the
    request. ``seen`` has the groups of each request. With ``pause``, each byte of an answer comes
    so many seconds after the one before; with ``coordinator``, the groups are said to be there."""

    def __init__(self, answers: dict[int, Answer], pause: float = 0.0) -> None:
        self.answers = answers
        self.pause = pause
        self.silent = False
        self.coordinator: BrokenBroker | None = None
        self.seen: list[tuple[int, list[str]]] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.close()

    def cluster(self, timeout: float) -> Any:
        """A `Cluster` whose only broker this is."""
        return SimpleNamespace(
            brokers=lambda: [("127.0.0.1", self.port)],
            config={},
            timeout=timeout,
            client=KafkaClient.of("127.0.0.1", {}),
        )

    def _accept(self) -> None:
        while True:
            try:
                connection = self._server.accept()[0]
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                while size := connection.recv(4, socket.MSG_WAITALL):
                    request = connection.recv(*struct.unpack(">i", size), socket.MSG_WAITALL)
                    if self.silent:
                        time.sleep(60)
                    self._send(connection, self._answer(request))
            except OSError:
                return

    def _send(self, connection: socket.socket, answer: bytes) -> None:
        whole = struct.pack(">i", len(answer)) + answer
        if not self.pause:
            connection.sendall(whole)
            return
        for byte in whole:
            connection.sendall(bytes([byte]))
            time.sleep(self.pause)

    def _answer(self, request: bytes) -> bytes:
        api, _, correlation, length = struct.unpack_from(">hhih", request)
        head = struct.pack(">i", correlation)
        fields = FieldReader(request[10 + length + 1 :])  # behind the client's id and the tags
        if api == API_VERSIONS:
            rows = [struct.pack(">hhh", key, 0, most) + b"\0" for key, most in _VERSIONS.items()]
            return head + b"\0\0" + array(rows) + bytes(4) + b"\0"
        if api == FIND_COORDINATOR:
            fields.number("b")
        names = []
        for _ in range(fields.length()):
            names.append(fields.text())
            if api == OFFSET_FETCH:
                fields.octets(2)  # all topics, no tags
        self.seen.append((api, names))
        if api == FIND_COORDINATOR:
            port = (self.coordinator or self).port
            place = struct.pack(">i", 0) + compact("127.0.0.1") + struct.pack(">ih", port, 0)
            rows = [compact(name) + place + b"\0\0" for name in names]
            return head + b"\0" + bytes(4) + array(rows) + b"\0"
        return head + b"\0" + bytes(4) + self.answers[api](names) + b"\0"


def array(rows: list[bytes]) -> bytes:
    """A compact array."""
    return unsigned_varint(len(rows) + 1) + b"".join(rows)


def no_offsets(names: list[str]) -> bytes:
    """The groups of an answer to OffsetFetch: they have no offsets."""
    return array([compact(name) + b"\x01\0\0\0" for name in names])
