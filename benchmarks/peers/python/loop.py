"""A careful Python loop with `struct` over a file of records: see benchmarks/peers/README.md.

Every format compiled once, positions passed along, nothing looked up twice; tuples, not objects.
It checks as much as Kafka's own classes do: that reads stay inside, and that versions are known.
"""

from __future__ import annotations

import json
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Reader = Callable[[bytes], Any]

_SHORT = struct.Struct(">h").unpack_from
_INT = struct.Struct(">i").unpack_from
_LONG = struct.Struct(">q").unpack_from
_COMMIT_3 = struct.Struct(">qih").unpack_from
_COMMIT_4 = struct.Struct(">qi").unpack_from
_EPOCHS = struct.Struct(">iib").unpack_from
_TWO_INTS = struct.Struct(">ii").unpack_from
_TWO_LONGS = struct.Struct(">qq").unpack_from
_NO_ID = bytes(16)


def string(data: bytes, at: int) -> tuple[str | None, int]:
    (size,) = _SHORT(data, at)
    at += 2
    if size < 0:
        return None, at
    return data[at : at + size].decode(), at + size


def blob(data: bytes, at: int) -> tuple[bytes, int]:
    (size,) = _INT(data, at)
    at += 4
    return data[at : at + size], at + size


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = data[at]
    at += 1
    if value < 128:
        return value, at
    value &= 127
    shift = 7
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7


def compact(data: bytes, at: int) -> tuple[str | None, int]:
    size, at = varint(data, at)
    if not size:
        return None, at
    end = at + size - 1
    return data[at:end].decode(), end


def numbers(data: bytes, at: int) -> tuple[tuple[int, ...], int]:
    count, at = varint(data, at)
    count -= 1
    return struct.unpack_from(f">{count}i", data, at), at + 4 * count


def tags(data: bytes, at: int) -> tuple[dict[int, tuple[int, int]], int]:
    """Where the content of each tag stands."""
    count, at = varint(data, at)
    found = {}
    for _ in range(count):
        tag, at = varint(data, at)
        size, at = varint(data, at)
        found[tag] = (at, at + size)
        at += size
    return found, at


# -- keys ------------------------------------------------------------------------------------


def commit_key(data: bytes) -> Any:
    group, at = string(data, 2)
    topic, at = string(data, at)
    return group, topic, _INT(data, at)[0]


def group_key(data: bytes) -> Any:
    return string(data, 2)[0]


def member_key(data: bytes) -> Any:
    group, at = string(data, 2)
    return group, string(data, at)[0]


# -- values ----------------------------------------------------------------------------------


def commit(data: bytes) -> Any:
    (version,) = _SHORT(data)
    if version == 4:
        offset, epoch = _COMMIT_4(data, 2)
        metadata, at = compact(data, 14)
        (time_,) = _LONG(data, at)
        found, at = tags(data, at + 8)
        id_ = _NO_ID
        if 0 in found:
            start, end = found[0]
            id_ = data[start:end]
        return version, offset, epoch, metadata, time_, id_
    if version == 3:
        offset, epoch, size = _COMMIT_3(data, 2)
        metadata = data[16 : 16 + size].decode()
        return version, offset, epoch, metadata, _LONG(data, 16 + size)[0], None
    raise ValueError(f"version {version}")


def group_metadata(data: bytes) -> Any:
    (version,) = _SHORT(data)
    if version != 3:
        raise ValueError(f"version {version}")
    type_, at = string(data, 2)
    (generation,) = _INT(data, at)
    protocol, at = string(data, at + 4)
    leader, at = string(data, at)
    (since,) = _LONG(data, at)
    (count,) = _INT(data, at + 8)
    at += 12
    members = []
    for _ in range(count):
        member, at = string(data, at)
        instance, at = string(data, at)
        client, at = string(data, at)
        host, at = string(data, at)
        rebalance, session = _TWO_INTS(data, at)
        subscription, at = blob(data, at + 8)
        assignment, at = blob(data, at)
        members.append(
            (member, instance, client, host, rebalance, session, subscription, assignment)
        )
    return version, type_, generation, protocol, leader, since, members


def consumer_group(data: bytes) -> Any:
    (epoch,) = _INT(data, 2)
    found, _ = tags(data, 6)
    return epoch, _LONG(data, found[0][0])[0] if 0 in found else 0


def member(data: bytes) -> Any:
    instance, at = compact(data, 2)
    rack, at = compact(data, at)
    client, at = compact(data, at)
    host, at = compact(data, at)
    count, at = varint(data, at)
    names = []
    for _ in range(count - 1):
        name, at = compact(data, at)
        names.append(name)
    regex, at = compact(data, at)
    (timeout,) = _INT(data, at)
    assignor, at = compact(data, at + 4)
    found, at = tags(data, at)
    classic: Any = (0, [])
    if 0 in found:
        at, _ = found[0]
        classic = None
        if data[at]:
            (session,) = _INT(data, at + 1)
            count, at = varint(data, at + 5)
            protocols = []
            for _ in range(count - 1):
                name, at = compact(data, at)
                size, at = varint(data, at)
                protocols.append((name, data[at : at + size - 1]))
                _, at = tags(data, at + size - 1)
            classic = (session, protocols)
    return instance, rack, client, host, names, regex, timeout, assignor, classic


def topics(data: bytes, at: int) -> tuple[list[Any], int]:
    count, at = varint(data, at)
    found = []
    for _ in range(count - 1):
        id_ = data[at : at + 16]
        partitions, at = numbers(data, at + 16)
        extra, at = tags(data, at)
        epochs: tuple[int, ...] | None = ()
        if 0 in extra:
            start, _ = extra[0]
            epochs = numbers(data, start)[0] if data[start] else None
        found.append((id_, partitions, epochs))
    return found, at


def target(data: bytes) -> Any:
    found, at = topics(data, 2)
    tags(data, at)
    return found


def current(data: bytes) -> Any:
    epoch, previous, state = _EPOCHS(data, 2)
    assigned, at = topics(data, 11)
    revoking, at = topics(data, at)
    tags(data, at)
    return epoch, previous, state, assigned, revoking


def regex(data: bytes) -> Any:
    count, at = varint(data, 2)
    names = []
    for _ in range(count - 1):
        name, at = compact(data, at)
        names.append(name)
    version, since = _TWO_LONGS(data, at)
    tags(data, at + 16)
    return names, version, since


READERS: dict[int, tuple[Reader, Reader]] = {
    0: (commit_key, commit),
    1: (commit_key, commit),
    2: (group_key, group_metadata),
    3: (group_key, consumer_group),
    5: (member_key, member),
    6: (group_key, consumer_group),  # an epoch and a tagged number, as in 3
    7: (member_key, target),
    8: (member_key, current),
    16: (member_key, regex),
}


def load(path: Path) -> list[tuple[bytes, bytes | None]]:
    data = path.read_bytes()
    size = struct.Struct("<i").unpack_from
    records = []
    at = 0
    while at < len(data):
        (length,) = size(data, at)
        key = data[at + 4 : at + 4 + length]
        at += 4 + length
        (length,) = size(data, at)
        at += 4
        value = None
        if length >= 0:
            value = data[at : at + length]
            at += length
        records.append((key, value))
    return records


def decode(records: list[tuple[bytes, bytes | None]], kept: list[Any] | None) -> int:
    for key, value in records:
        read_key, read_value = READERS[_SHORT(key)[0]]
        one = (read_key(key), None if value is None else read_value(value))
        if kept is not None:
            kept.append(one)
    return len(records)


def main() -> None:
    records = load(Path(sys.argv[1]))
    best = float("inf")
    read = 0
    for _ in range(int(sys.argv[3])):
        kept: list[Any] | None = [] if sys.argv[2] == "kept" else None
        start = time.process_time()
        read = decode(records, kept)
        best = min(best, time.process_time() - start)
        del kept
    status = Path("/proc/self/status").read_text()
    peak = int(status.split("VmHWM:")[1].split()[0])
    print(json.dumps({"seconds": best, "read": read, "peak_kib": peak}))


if __name__ == "__main__":
    main()
