"""Offset commits in bulk: what members at rest commit at every interval, as columns.

Nineteen records in twenty are commits, and nearly all of them are of members whose epoch does
not change meanwhile: nothing can refuse those, so they need not go through the coordinator one by
one. How far a consumer has read is a function of time: equal times give equal offsets, whether
computed one at a time or by the thousand.
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
Place = tuple[str, str, int]
"""A group, a topic and a partition of it."""


@dataclass(frozen=True)
class Commits:
    """Commits of one client: arrays as long as each other, a row a record."""

    time: Integers
    client: Integers
    row: Integers
    """The place within what the client commits, so that the rows of a request keep their order."""
    place: Integers
    offset: Integers
    leader: Integers
    metadata: Integers
    topic_id: Integers

    def where(self, mask: npt.NDArray[np.bool_]) -> Commits:
        """The rows of a mask."""
        return Commits(**{name: getattr(self, name)[mask] for name in self.__dataclass_fields__})


class Places:
    """Every place commits are for, and how far its group has read at a time."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.known: list[Place] = []
        self._ids: dict[Place, int] = {}
        self._base = np.zeros(64, np.int64)
        self._since = np.zeros(64, np.int64)
        self._rate = np.zeros(64, np.int64)
        self._leader = np.zeros(64, np.int64)
        self.texts: list[str] = [""]
        self._texts = {"": 0}
        self.topic_ids: list[bytes] = [ZERO_UUID]
        self._topic_ids = {"": 0}

    def number(self, place: Place) -> int:
        """The number of a place; a new one begins with what its name says."""
        found = self._ids.get(place)
        if found is not None:
            return found
        number = self._ids[place] = len(self.known)
        self.known.append(place)
        if number == len(self._base):
            for name in ("_base", "_since", "_rate", "_leader"):
                old = getattr(self, name)
                setattr(self, name, np.concatenate([old, np.zeros_like(old)]))
        drawn = int.from_bytes(f"{place[1]}/{place[2]}".encode()[-6:], "big")
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
        """The number of a topic's id."""
        key = raw.hex()
        if key not in self._topic_ids:
            self._topic_ids[key] = len(self.topic_ids)
            self.topic_ids.append(raw)
        return self._topic_ids[key]

    def offset(self, number: int, at: int) -> int:
        """How far the group has read there by a time."""
        passed = at - int(self._since[number])
        return int(self._base[number]) + passed * int(self._rate[number]) // 1_000

    def leader(self, number: int) -> int:
        """The leader epoch there."""
        return int(self._leader[number])

    def rewind(self, number: int, at: int, to: int) -> None:
        """The group reads from ``to`` on."""
        self._base[number], self._since[number] = to, at

    def offsets(self, numbers: Integers, times: Integers) -> Integers:
        """int64[len(times), len(numbers)]: as `offset`, for each of them."""
        passed = times[:, None] - self._since[numbers][None, :]
        found: Integers = self._base[numbers] + passed * self._rate[numbers] // 1_000
        return found

    def leaders(self, numbers: Integers) -> Integers:
        """int64[n]: the leader epochs of places."""
        found: Integers = self._leader[numbers]
        return found


def ticks(first: int, interval: int, after: int, until: int, client: int) -> Integers:
    """The times in (after, until] at which a client commits: every interval, a little late."""
    low = max(0, (after - first) // interval - 1)
    number = np.arange(low, max(low, (until - first) // interval + 1), dtype=np.int64)
    times = first + number * interval + late(number, client, interval)
    return times[(times > after) & (times <= until)]


def late(number: Integers, client: int, interval: int) -> Integers:
    """How many ms the commits of these numbers are late, told from the numbers alone: below 48, and
    never as late as the next commit."""
    mixed = (number * 2_654_435_761 + client * 40_503) & 0xFFFF_FFFF
    delay: Integers = mixed >> 11
    return delay % min(48, interval)


def encode_commits(
    commits: Sequence[Commits], places: Places, keys: KeyTable, version: int
) -> tuple[pa.BinaryArray, pa.BinaryArray]:
    """Keys and values (binary[n]) of commits, one after the other."""
    place, offset, leader, metadata, topic_id, time = (
        np.concatenate([getattr(each, name) for each in commits])
        for name in ("place", "offset", "leader", "metadata", "topic_id", "time")
    )
    columns = {
        "offset": pa.array(offset),
        "leader_epoch": pa.array(leader.astype(np.int32)),
        "metadata": pa.array(places.texts).take(pa.array(metadata)),
        "commit_timestamp": pa.array(time),
    }
    if version >= 4:
        columns["topic_id"] = pa.array(places.topic_ids, pa.binary(16)).take(pa.array(topic_id))
    values = encode_values(plan_of(COMMIT), version, columns)
    return keys.of(places).take(pa.array(place)), values


class KeyTable:
    """The key of every place, encoded once."""

    def __init__(self) -> None:
        self._keys = pa.array([], pa.binary())

    def of(self, places: Places) -> pa.BinaryArray:
        """binary[n]: the keys of all places known by now."""
        new = places.known[len(self._keys) :]
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
