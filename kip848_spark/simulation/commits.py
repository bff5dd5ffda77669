"""Bulk offset commits: what members at rest commit at every interval, as columns.

About 19 of 20 records are commits, and nearly all come from members whose epoch does not change
meanwhile. The coordinator cannot refuse those, so they do not pass through it one by one. A
consumer's position is a function of time: equal times give equal offsets, whether they are computed
one at a time or in thousands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kip848_spark.simulation.encoding import COMMIT, plan_of
from kip848_spark.wire.columns import ZERO_UUID
from kip848_spark.wire.encode import encode_keys, encode_values

Integers = npt.NDArray[np.int64]
OffsetKey = tuple[str, str, int]
"""A group, a topic and a partition of the topic."""


@dataclass(frozen=True)
class Commits:
    """Commits of one client: arrays of equal length, one row per record. Times are in ms."""

    time: Integers
    client: Integers
    row: Integers
    """The row's position within the client's commits, which keeps the rows of a request
    in order.
    """
    key_number: Integers
    offset: Integers
    leader: Integers
    metadata: Integers
    topic_id: Integers

    def where(self, mask: npt.NDArray[np.bool_]) -> Commits:
        """The rows that a mask selects."""
        return Commits(**{name: getattr(self, name)[mask] for name in self.__dataclass_fields__})


class ReadPositions:
    """Every group and partition that commits are written for, and the group's position in it over
    time.
    """

    def __init__(self, start: int) -> None:
        self.start = start
        self.known: list[OffsetKey] = []
        self._ids: dict[OffsetKey, int] = {}
        self._base = np.zeros(64, np.int64)
        self._since = np.zeros(64, np.int64)
        self._rate = np.zeros(64, np.int64)
        self._leader = np.zeros(64, np.int64)
        self.texts: list[str] = [""]
        self._texts = {"": 0}
        self.topic_ids: list[bytes] = [ZERO_UUID]
        self._topic_ids = {"": 0}

    def number(self, key_number: OffsetKey) -> int:
        """The number of a key. A new key gets a start position and a rate derived from its name."""
        found = self._ids.get(key_number)
        if found is not None:
            return found
        number = self._ids[key_number] = len(self.known)
        self.known.append(key_number)
        if number == len(self._base):
            for name in ("_base", "_since", "_rate", "_leader"):
                old = getattr(self, name)
                setattr(self, name, np.concatenate([old, np.zeros_like(old)]))
        drawn = int.from_bytes(f"{key_number[1]}/{key_number[2]}".encode()[-6:], "big")
        self._base[number] = drawn % 90_001
        self._since[number] = self.start
        self._rate[number] = 1 + drawn % 157
        self._leader[number] = drawn % 9
        return number

    def text(self, text: str) -> int:
        """The number of a metadata text."""
        if text not in self._texts:
            self._texts[text] = len(self.texts)
            self.texts.append(text)
        return self._texts[text]

    def topic_id(self, raw: bytes) -> int:
        """The number of a topic id."""
        key = raw.hex()
        if key not in self._topic_ids:
            self._topic_ids[key] = len(self.topic_ids)
            self.topic_ids.append(raw)
        return self._topic_ids[key]

    def offset(self, number: int, at: int) -> int:
        """The group's position at a time (ms)."""
        passed = at - int(self._since[number])
        return int(self._base[number]) + passed * int(self._rate[number]) // 1_000

    def leader(self, number: int) -> int:
        """The leader epoch of the partition."""
        return int(self._leader[number])

    def rewind(self, number: int, at: int, to: int) -> None:
        """The group continues from offset ``to``."""
        self._base[number], self._since[number] = to, at

    def offsets(self, numbers: Integers, times: Integers) -> Integers:
        """int64[len(times), len(numbers)]: as `offset`, for each pair."""
        passed = times[:, None] - self._since[numbers][None, :]
        found: Integers = self._base[numbers] + passed * self._rate[numbers] // 1_000
        return found

    def leaders(self, numbers: Integers) -> Integers:
        """int64[n]: the leader epochs of the partitions."""
        found: Integers = self._leader[numbers]
        return found


def commit_times(first: int, interval: int, after: int, until: int, client: int) -> Integers:
    """The times (ms) in (after, until] at which a client commits: once per interval,
    slightly late.
    """
    low = max(0, (after - first) // interval - 1)
    number = np.arange(low, max(low, (until - first) // interval + 1), dtype=np.int64)
    times = first + number * interval + lateness(number, client, interval)
    return times[(times > after) & (times <= until)]


def lateness(number: Integers, client: int, interval: int) -> Integers:
    """By how many ms the commits of these numbers are late: below 48, and less than the
    interval.
    """
    mixed = (number * 2_654_435_761 + client * 40_503) & 0xFFFF_FFFF
    delay: Integers = mixed >> 11
    return delay % min(48, interval)


def encode_commits(
    commits: Sequence[Commits], positions: ReadPositions, keys: EncodedKeys, version: int
) -> tuple[pa.BinaryArray, pa.BinaryArray]:
    """Keys and values (binary[n]) of commits, in the given order."""
    key_number, offset, leader, metadata, topic_id, time = (
        np.concatenate([getattr(each, name) for each in commits])
        for name in ("key_number", "offset", "leader", "metadata", "topic_id", "time")
    )
    columns = {
        "offset": pa.array(offset),
        "leader_epoch": pa.array(leader.astype(np.int32)),
        "metadata": pa.array(positions.texts).take(pa.array(metadata)),
        "commit_timestamp": pa.array(time),
    }
    if version >= 4:
        columns["topic_id"] = pa.array(positions.topic_ids, pa.binary(16)).take(pa.array(topic_id))
    values = encode_values(plan_of(COMMIT), version, columns)
    return keys.of(positions).take(pa.array(key_number)), values


class EncodedKeys:
    """The record key of every `OffsetKey`, encoded once."""

    def __init__(self) -> None:
        self._keys = pa.array([], pa.binary())

    def of(self, positions: ReadPositions) -> pa.BinaryArray:
        """binary[n]: the keys of all positions known so far."""
        new = positions.known[len(self._keys) :]
        if new:
            groups, topics, numbers = zip(*new, strict=True)
            encoded = encode_keys(
                plan_of(COMMIT),
                {
                    "group": pa.array(groups),
                    "topic": pa.array(topics),
                    "partition": pa.array(numbers, pa.int32()),
                },
            )
            self._keys = pa.concat_arrays([self._keys, encoded])
        return self._keys
