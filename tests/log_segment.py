"""A segment file of a broker's log with records of a test's choice, to be read by Kafka's tools."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

_CASTAGNOLI = 0x82F63B78


def write_segment(log_dir: Path, pairs: Sequence[tuple[bytes, bytes | None]]) -> Path:
    """One batch with these keys and values, at offset 0 of partition 0 of `__consumer_offsets`."""
    records = b"".join(_record(number, key, value) for number, (key, value) in enumerate(pairs))
    last = len(pairs) - 1
    body = struct.pack(">hiqqqhii", 0, last, 0, 0, -1, -1, -1, len(pairs)) + records
    head = struct.pack(">ibI", 0, 2, _crc32c(body))
    path = log_dir / "__consumer_offsets-0" / f"{0:020}.log"
    path.parent.mkdir(parents=True)
    path.write_bytes(struct.pack(">qi", 0, len(head) + len(body)) + head + body)
    return path


def _record(number: int, key: bytes, value: bytes | None) -> bytes:
    content = b"" if value is None else value
    size = -1 if value is None else len(content)
    parts = b"\0" + _varint(0) + _varint(number) + _varint(len(key)) + key + _varint(size) + content
    return _varint(len(parts) + 1) + parts + _varint(0)


def _varint(number: int) -> bytes:
    rest = number << 1 if number >= 0 else (-number << 1) - 1
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*out, rest])


def _crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (_CASTAGNOLI if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF
