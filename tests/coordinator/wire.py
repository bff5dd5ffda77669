"""Raw Kafka requests over a socket, converted from and to the reference's JSON form.

kio has a dataclass per message and version. Here requests and responses are plain dicts with
Kafka's lower camel case names, error codes by name, and uuids and bytes in base64.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime
import importlib
import io
import re
import socket
import struct
import types
import typing
import uuid
from typing import Any

from confluent_kafka import Uuid
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

_MODULES = {"DescribeGroups": "describe_groups", "InitProducerId": "init_producer_id"}


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


def message(api: str, version: int, side: str) -> Any:
    module = importlib.import_module(f"kio.schema.{_snake(api)}.v{version}.{side}")
    return getattr(module, f"{api}{side.capitalize()}")


_TIMES = {"rebalance_timeout", "session_timeout", "retention_time", "throttle_time"}
_INTERVALS = {"heartbeat_interval"}


def _json_name(field: str, kind: str) -> str:
    camel = _camel(field)
    return camel + "Ms" if kind.startswith("timedelta") else camel


def from_json(cls: Any, data: dict[str, Any]) -> Any:
    """Build an entity of ``cls`` from a dict; missing fields take the message's default."""
    hints = typing.get_type_hints(cls)
    values = {}
    for field in dataclasses.fields(cls):
        kind = field.metadata.get("kafka_type", "")
        name = _json_name(field.name, kind)
        if name not in data:
            if field.default is dataclasses.MISSING and field.default_factory is (
                dataclasses.MISSING
            ):
                values[field.name] = _empty(hints[field.name], kind)
            continue
        values[field.name] = _in(hints[field.name], kind, data[name])
    return cls(**values)


def _empty(hint: Any, kind: str) -> Any:
    if _nullable(hint):
        return None
    if typing.get_origin(hint) is tuple:
        return ()
    return {"string": "", "bytes": b"", "bool": False}.get(kind, 0)


def _nullable(hint: Any) -> bool:
    origin = typing.get_origin(hint)
    return origin in (types.UnionType, typing.Union) and type(None) in typing.get_args(hint)


def _in(hint: Any, kind: str, value: Any) -> Any:
    if value is None:
        return None
    if _nullable(hint):
        hint = next(arg for arg in typing.get_args(hint) if arg is not type(None))
    if typing.get_origin(hint) is tuple:
        inner = typing.get_args(hint)[0]
        return tuple(_in(inner, kind, item) for item in value)
    if dataclasses.is_dataclass(hint):
        return from_json(hint, value)
    if kind.startswith("timedelta"):
        return datetime.timedelta(milliseconds=value)
    if kind == "uuid":
        return uuid.UUID(bytes=base64.urlsafe_b64decode(value + "=="))
    if kind in ("bytes", "records"):
        return base64.b64decode(value)
    return value


def to_json(entity: Any) -> Any:
    """The dict form of an entity."""
    out = {}
    for field in dataclasses.fields(entity):
        kind = field.metadata.get("kafka_type", "")
        out[_json_name(field.name, kind)] = _out(kind, getattr(entity, field.name))
    return out


def _out(kind: str, value: Any) -> Any:
    if isinstance(value, ErrorCode):
        return value.name.upper()
    if dataclasses.is_dataclass(value):
        return to_json(value)
    if isinstance(value, tuple):
        return [_out(kind, item) for item in value]
    if isinstance(value, datetime.timedelta):
        return round(value.total_seconds() * 1000)
    if isinstance(value, uuid.UUID):
        return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value


def base64_form(topic_id: Uuid) -> str:
    """A uuid of the admin client in the form that Kafka prints."""
    halves = (topic_id.get_most_significant_bits(), topic_id.get_least_significant_bits())
    raw = b"".join((half & (2**64 - 1)).to_bytes(8, "big") for half in halves)
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


class Connection:
    """One client's connection, with one request in flight at a time."""

    def __init__(self, bootstrap: str, client_id: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=10)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.client_id = client_id
        self._correlation = 0
        self._under_way: dict[int, Any] = {}
        self._answered: dict[int, dict[str, Any]] = {}
        self._received = b""

    def send(self, api: str, version: int, request: dict[str, Any]) -> int:
        """Send a request; returns the number that identifies its answer."""
        self._correlation += 1
        cls = message(api, version, "request")
        header_class = cls.__header_schema__
        header = header_class(
            request_api_key=cls.__api_key__,
            request_api_version=cls.__version__,
            correlation_id=self._correlation,
            client_id=self.client_id,
        )
        buffer = io.BytesIO()
        entity_writer(header_class)(buffer, header)
        entity_writer(cls)(buffer, from_json(cls, request))
        payload = buffer.getvalue()
        self._under_way[self._correlation] = message(api, version, "response")
        self.socket.sendall(struct.pack(">i", len(payload)) + payload)
        return self._correlation

    def receive(self, number: int, timeout: float) -> dict[str, Any] | None:
        """The answer to a request, or ``None`` after the timeout."""
        deadline = datetime.datetime.now().timestamp() + timeout
        while number not in self._answered:
            left = deadline - datetime.datetime.now().timestamp()
            if not self._read(max(left, 0.001)) and left <= 0:
                return None
        return self._answered.pop(number)

    def _read(self, timeout: float) -> bool:
        self.socket.settimeout(timeout)
        try:
            data = self.socket.recv(1 << 16)
        except TimeoutError:
            return False
        if not data:
            raise ConnectionError("the broker closed the connection")
        self._received += data
        while len(self._received) >= 4:
            (length,) = struct.unpack_from(">i", self._received)
            if len(self._received) < 4 + length:
                break
            frame, self._received = self._received[4 : 4 + length], self._received[4 + length :]
            self._take(frame)
        return True

    def _take(self, frame: bytes) -> None:
        (number,) = struct.unpack_from(">i", frame)
        cls = self._under_way.pop(number)
        header_class = cls.__header_schema__
        _, size = entity_reader(header_class)(frame, 0)
        entity, _ = entity_reader(cls)(frame, size)
        self._answered[number] = to_json(entity)

    def close(self) -> None:
        self.socket.close()
