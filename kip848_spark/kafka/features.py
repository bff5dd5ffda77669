"""The features of the brokers: the release line of each, and the finalized ``group.version``.

librdkafka has no call for them. A broker answers an ApiVersions request (KIP-511, KIP-584) to
anybody, before a client has authenticated itself, so one request over a plain or TLS socket is
enough. What does not answer is not known.
"""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from kip848_spark.version import __version__

_API_VERSIONS, _VERSION = 18, 3
_CLIENT = b"kip848-spark"
_MOST_BYTES = 1 << 20
"""An answer is a few kilobytes; what claims to be larger is not from a broker."""
_GROUP, _METADATA = "group.version", "metadata.version"
_SUPPORTED, _FINALIZED = 0, 2
"""Tags of the answer."""


@dataclass(frozen=True)
class BrokerFeatures:
    """The features of one broker. ``metadata_version`` is the newest level of ``metadata.version``
    that the broker supports, which tells its release line; ``group_version`` is the level of
    ``group.version`` that the cluster has finalized, 0 if it has none."""

    metadata_version: int
    group_version: int


def broker_features(
    host: str, port: int, config: Mapping[str, Any], timeout: float = 5.0
) -> BrokerFeatures | None:
    """Asks one broker; None if it does not answer, or not as a broker of Kafka 3.3 or later does.
    ``config`` are settings of librdkafka; ``timeout`` is in seconds."""
    try:
        with closing(_connect(host, port, config, timeout)) as connection:
            connection.sendall(_request())
            return _features(_answer(connection))
    except (OSError, ValueError, LookupError, struct.error):
        return None


def _connect(host: str, port: int, config: Mapping[str, Any], timeout: float) -> socket.socket:
    plain = socket.create_connection((host, port), timeout)
    if not str(config.get("security.protocol", "")).upper().endswith("SSL"):
        return plain
    try:
        return _tls(config).wrap_socket(plain, server_hostname=host)
    except BaseException:
        plain.close()
        raise


def _tls(config: Mapping[str, Any]) -> ssl.SSLContext:
    context = ssl.create_default_context(
        cafile=config.get("ssl.ca.location"), cadata=config.get("ssl.ca.pem")
    )
    if str(config.get("ssl.endpoint.identification.algorithm", "https")).lower() == "none":
        context.check_hostname = False
    if str(config.get("enable.ssl.certificate.verification", "true")).lower() == "false":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate := config.get("ssl.certificate.location"):
        context.load_cert_chain(
            certificate, config.get("ssl.key.location"), config.get("ssl.key.password", "")
        )
    return context


def _request() -> bytes:
    header = struct.pack(">hhih", _API_VERSIONS, _VERSION, 848, len(_CLIENT)) + _CLIENT + b"\0"
    body = b"".join(_compact(text) for text in (_CLIENT, __version__.encode())) + b"\0"
    return struct.pack(">i", len(header + body)) + header + body


def _compact(text: bytes) -> bytes:
    return bytes([len(text) + 1]) + text


def _answer(connection: socket.socket) -> bytes:
    (size,) = struct.unpack(">i", _read(connection, 4))
    if not 0 < size <= _MOST_BYTES:
        raise ValueError("not an answer of a broker")
    return _read(connection, size)


def _read(connection: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        more = connection.recv(size - len(found))
        if not more:
            raise ValueError("the answer ends too early")
        found += more
    return found


class _ResponseReader:
    """Reads the fields of an answer, in their order. Raises IndexError or struct.error where the
    bytes end too early."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer
        self.at = 0

    def number(self, form: str) -> int:
        """A big-endian number."""
        (found,) = struct.unpack_from(f">{form}", self.answer, self.at)
        self.at += struct.calcsize(form)
        return int(found)

    def varint(self) -> int:
        """An unsigned varint."""
        found = 0
        for shift in range(0, 35, 7):
            byte = self.answer[self.at]
            self.at += 1
            found |= (byte & 0x7F) << shift
            if not byte & 0x80:
                return found
        raise ValueError("a varint of more than five bytes")

    def length(self) -> int:
        """The length of a compact array or string; 0 for null."""
        return max(self.varint() - 1, 0)

    def text(self) -> str:
        """A compact string."""
        size = self.length()
        self.at += size
        return self.answer[self.at - size : self.at].decode()

    def tags(self) -> dict[int, bytes]:
        """The tagged fields, undecoded."""
        found = {}
        for _ in range(self.varint()):
            tag, size = self.varint(), self.varint()
            self.at += size
            found[tag] = self.answer[self.at - size : self.at]
        return found


def _features(answer: bytes) -> BrokerFeatures:
    fields = _ResponseReader(answer)
    fields.number("i")  # correlation id
    if fields.number("h"):
        raise ValueError("the broker refuses the request")
    for _ in range(fields.length()):
        fields.at += 6  # API, its oldest and its newest version
        fields.tags()
    fields.number("i")  # throttle time
    tags = fields.tags()
    supported = dict(_levels(tags.get(_SUPPORTED, b"\x01"), newest_first=False))
    finalized = dict(_levels(tags.get(_FINALIZED, b"\x01"), newest_first=True))
    return BrokerFeatures(supported[_METADATA], finalized.get(_GROUP, 0))


def _levels(array: bytes, *, newest_first: bool) -> Iterable[tuple[str, int]]:
    """Features and their newest levels."""
    fields = _ResponseReader(array)
    for _ in range(fields.length()):
        name = fields.text()
        levels = fields.number("h"), fields.number("h")
        fields.tags()
        yield name, levels[0] if newest_first else levels[1]
