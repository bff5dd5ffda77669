"""A connection to one broker, for the requests that librdkafka has no call for.

A client authenticates itself here as librdkafka does: not at all, by a TLS certificate, or by SASL
with PLAIN or SCRAM.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import socket
import ssl
import struct
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

CLIENT = b"kip848-spark"
_CORRELATION = 848
_MOST_BYTES = 1 << 26
"""Larger answers are not read: their fields would take gigabytes of memory."""
_MOST_ROUNDS = 1_000_000
"""More rounds of SCRAM are not computed. Kafka has at most 16,384."""
_HANDSHAKE, _AUTHENTICATE = (17, 1), (36, 2)
"""Key and version of the requests SaslHandshake and SaslAuthenticate."""


class BrokerConnection:
    """A connection to a broker; a context manager. ``config`` are settings of librdkafka, and
    ``timeout`` is in seconds, for each request. Raises OSError if nobody answers."""

    def __init__(self, host: str, port: int, config: Mapping[str, Any], timeout: float) -> None:
        self._config = config
        self._timeout = timeout
        self._socket = _connect(host, port, config, timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._socket.close()

    def ask(self, api: int, version: int, body: bytes, *, tagged: bool = True) -> FieldReader:
        """Sends a request of a flexible version and returns its answer, behind the header.
        ``tagged``: the header of the answer has tagged fields. Raises OSError or ValueError."""
        fields = self._exchange(api, version, b"\0" + body)
        if tagged:
            fields.tags()
        return fields

    def authenticate(self) -> None:
        """Authenticates the client, if the settings ask for SASL. Raises ValueError with the reason
        if the mechanism is none of PLAIN and SCRAM, or the broker refuses the client."""
        if not str(self._config.get("security.protocol", "")).upper().startswith("SASL"):
            return
        mechanism = str(
            self._config.get("sasl.mechanism") or self._config.get("sasl.mechanisms") or "GSSAPI"
        ).upper()
        user = str(self._config.get("sasl.username", ""))
        password = str(self._config.get("sasl.password", ""))
        digest = _SCRAM.get(mechanism)
        if digest is None and mechanism != "PLAIN":
            raise ValueError(f"the SASL mechanism {mechanism} is not available for this request")
        body = struct.pack(">h", len(mechanism)) + mechanism.encode()
        if self._exchange(*_HANDSHAKE, body).number("h"):
            raise ValueError(f"the broker has no SASL mechanism {mechanism}")
        if digest is None:
            self._say(f"\0{user}\0{password}".encode())
        else:
            self._prove(digest, user, password)

    def _prove(self, digest: str, user: str, password: str) -> None:
        """The exchange of RFC 5802."""
        name = user.replace("=", "=3D").replace(",", "=2C")
        own = secrets.token_urlsafe(24)
        first = f"n={name},r={own}"
        challenge = self._say(f"n,,{first}".encode()).decode()
        given = dict(part.split("=", 1) for part in challenge.split(","))
        if not given["r"].startswith(own):
            raise ValueError("the broker answers another client")
        salt, rounds = base64.b64decode(given["s"]), int(given["i"])
        if not 0 < rounds <= _MOST_ROUNDS:
            raise ValueError(f"the broker asks for {rounds} rounds of SCRAM")
        salted = hashlib.pbkdf2_hmac(digest, password.encode(), salt, rounds)
        key = hmac.digest(salted, b"Client Key", digest)
        last = f"c=biws,r={given['r']}"
        spoken = f"{first},{challenge},{last}".encode()
        signature = hmac.digest(hashlib.new(digest, key).digest(), spoken, digest)
        proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
        answer = self._say(f"{last},p={base64.b64encode(proof).decode()}".encode())
        server = hmac.digest(hmac.digest(salted, b"Server Key", digest), spoken, digest)
        if not hmac.compare_digest(answer, b"v=" + base64.b64encode(server)):
            raise ValueError("the broker does not know the client's password")

    def _say(self, said: bytes) -> bytes:
        fields = self.ask(*_AUTHENTICATE, unsigned_varint(len(said) + 1) + said + b"\0")
        if fields.number("h"):
            raise ValueError(f"the broker refuses the client: {fields.text()}")
        fields.text()
        return fields.octets()

    def _exchange(self, api: int, version: int, rest: bytes) -> FieldReader:
        header = struct.pack(">hhih", api, version, _CORRELATION, len(CLIENT)) + CLIENT
        until = time.monotonic() + self._timeout
        self._socket.settimeout(self._timeout)
        self._socket.sendall(struct.pack(">i", len(header + rest)) + header + rest)
        (size,) = struct.unpack(">i", self._read(4, until))
        if not 0 < size <= _MOST_BYTES:
            raise ValueError("not an answer of a broker, or one that is too large")
        fields = FieldReader(self._read(size, until))
        fields.number("i")  # correlation id
        return fields

    def _read(self, size: int, until: float) -> bytes:
        found = bytearray()
        while len(found) < size:
            left = until - time.monotonic()
            if left <= 0:
                raise TimeoutError("the broker does not answer in time")
            self._socket.settimeout(left)
            more = self._socket.recv(min(size - len(found), 1 << 20))
            if not more:
                raise ValueError("the answer ends too early")
            found += more
        return bytes(found)


_SCRAM = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}


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
    place = config.get("ssl.ca.location")
    if place == "probe":  # librdkafka looks in the usual places, as Python does without a place
        place = None
    folder = place is not None and Path(place).is_dir()
    context = ssl.create_default_context(
        cafile=None if folder else place,
        capath=place if folder else None,
        cadata=config.get("ssl.ca.pem"),
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


def unsigned_varint(number: int) -> bytes:
    """A number as Kafka writes the lengths of flexible versions."""
    octets = bytearray()
    while number > 0x7F:
        octets.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*octets, number])


def compact(text: str) -> bytes:
    """A compact string."""
    octets = text.encode()
    return unsigned_varint(len(octets) + 1) + octets


def compact_array(texts: list[str]) -> bytes:
    """A compact array of compact strings."""
    return unsigned_varint(len(texts) + 1) + b"".join(map(compact, texts))


class FieldReader:
    """Reads the fields of an answer, in their order. Raises IndexError or struct.error where the
    bytes end too early, ValueError for what can't be a field."""

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

    def octets(self, size: int | None = None) -> bytes:
        """``size`` bytes, or compact bytes."""
        size = self.length() if size is None else size
        self.at += size
        if self.at > len(self.answer):
            raise ValueError("the answer ends too early")
        return self.answer[self.at - size : self.at]

    def text(self) -> str:
        """A compact string; empty for null."""
        return self.octets().decode()

    def tags(self) -> dict[int, bytes]:
        """The tagged fields, undecoded."""
        return {self.varint(): self.octets(self.varint()) for _ in range(self.varint())}
