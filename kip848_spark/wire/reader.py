"""Runs programs over rows and makes Arrow arrays of what they fill."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from ctypes import memset
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kip848_spark.wire.faults import Faults, Reason, Rows
from kip848_spark.wire.layout import Struct
from kip848_spark.wire.output_buffers import SPARE, Filled
from kip848_spark.wire.program import Program, State

MOST = 0x7FFFFFFF
"""What an Arrow offset of 32 bits can say."""


@dataclass(frozen=True)
class Source:
    """``count`` rows of a buffer, with ``octets`` bytes: row ``i`` is ``data[starts[i]:ends[i]]``,
    or null if there is a bitmap ``valid`` and its bit ``first + i`` is not set. These are addresses
    (0 for none) of what is in ``kept``; the offsets have 64 bits if ``wide``, else 32."""

    count: int
    data: int
    starts: int
    ends: int
    wide: bool
    valid: int
    first: int
    octets: int
    kept: object

    @classmethod
    def of(cls, array: pa.Array) -> Source:
        """The rows of a binary array."""
        valid, offsets, content = array.buffers()
        wide = pa.types.is_large_binary(array.type)
        width = 8 if wide else 4
        start = offsets.address + width * array.offset if len(array) else 0
        bitmap = valid.address if array.null_count else 0
        data = 0 if content is None else content.address
        octets = 0
        if len(array):
            bounds = np.frombuffer(offsets, f"i{width}", len(array) + 1, width * array.offset)
            octets = int(bounds[-1]) - int(bounds[0])
        return cls(
            len(array), data, start, start + width, wide, bitmap, array.offset, octets, array
        )

    def distinct(self) -> tuple[npt.NDArray[np.int32], Source]:
        """int32[n]: which of the distinct rows each row is, -1 for null; and these, in the order in
        which they come first."""
        from kip848_spark.wire import distinct

        number_of, hashes = room(self.count, np.int32), room(self.count, np.int64)
        guesses = np.full(1 << distinct.GUESSES, -1, np.int32)
        offsets, octets = room(self.count + 1, np.int64), room(self.octets, np.uint8)
        at = address(offsets)
        found = distinct.distinct(
            self.data, self.starts, self.ends, self.wide, self.valid, self.first, self.count,
            _SEED, address(guesses), address(number_of), at, address(octets),
            address(hashes),
        )  # fmt: skip
        kept = (offsets, octets)
        return number_of, Source(
            found, address(octets), at, at + 8, True, 0, 0, int(offsets[found]), kept
        )


def room(count: int, type_: type[np.generic]) -> npt.NDArray[Any]:
    """An array with anything in it, of memory that Arrow keeps for the next one when it is let
    go of: the system takes long to give new memory."""
    return np.frombuffer(pa.allocate_buffer(count * np.dtype(type_).itemsize), type_)


ONE_LINE = np.zeros(2, np.int32)
"""The places of rows of which all are on the first line."""
_SEED = int.from_bytes(os.urandom(8), "little", signed=True) | 1
"""Nobody knows which keys share a hash."""


@dataclass(frozen=True)
class Read:
    """Rows that one program has read, without those in which it found a fault; their columns."""

    program: int
    rows: Rows
    fields: list[pa.Array]


class Programs:
    """Programs by the int16 that messages begin with; a line of them for each kind of message.
    A layout becomes a program when it is first met. ``beyond`` is the one that reads what has a
    larger number than there are, -1 for none."""

    def __init__(self, lines: Sequence[Mapping[int, Struct]], beyond: int = -1) -> None:
        self.beyond = beyond
        width = 1 + max((number for line in lines for number in line), default=-1)
        self.numbers = np.full((len(lines) + 1, width), -1, np.int32)
        self.layouts: list[Struct] = []
        self.of: list[tuple[int, int]] = []
        """Line and int16 of each program."""
        for place, line in enumerate(lines):
            for number, layout in line.items():
                self.numbers[place, number] = len(self.layouts)
                self.layouts.append(layout)
                self.of.append((place, number))
        self.programs: list[Program | None] = [None] * len(self.layouts)

    def read(
        self,
        source: Source,
        key_of: npt.NDArray[np.int32],
        places: npt.NDArray[np.int32],
        empty: Reason,
        unknown: Reason,
        whole: bool = True,
    ) -> tuple[list[Read], npt.NDArray[np.int32], Faults]:
        """Reads all rows that are not null. ``places[1 + key_of]`` is the line of each row, -1
        for none. Also gives the int16 of each row, -1 where there is none, and the faults.

        Rows without bytes fail as ``empty``, those with an int16 that is not known as ``unknown``.
        With ``whole``, bytes behind the last field are a fault.
        """
        from kip848_spark.wire import chunks

        count, programs = source.count, len(self.layouts)
        faults = Faults.none(count)
        versions, states = room(count, np.int32), np.zeros(programs, np.int64)
        which, order = room(chunks.CHUNK, np.int16), room(chunks.CHUNK, np.int64)
        begins, place = np.empty(programs + 1, np.int64), np.array([0, -1])
        fillings: dict[int, Filling] = {}
        while True:
            number = chunks.read(
                source.data, source.starts, source.ends, source.wide, source.valid, source.first,
                count, address(key_of), address(places) + 4, self.numbers, self.beyond, int(empty),
                int(unknown), whole, address(versions), address(faults.reason), address(faults.at),
                address(faults.tags), states, which, order, begins, place,
            )  # fmt: skip
            if number < 0:
                break
            if number in fillings:
                fillings[number].grow()
            else:
                program = self.programs[number] or self._made(number)
                fillings[number] = made = Filling(program, count, source.octets)
                states[number] = address(made.state)
        found = []
        for number, filling in sorted(fillings.items()):
            if good := int(filling.state[State.GOOD]):
                filled = Filled(filling.buffers, filling.program.rates, good)
                rows = np.frombuffer(filling.buffers[0], np.int64, good)
                filling.program.rates[0] = SPARE * good / count
                found.append(Read(number, rows, filling.program.fields.arrays(filled, good)))
        return found, versions, faults

    def _made(self, number: int) -> Program:
        self.programs[number] = made = Program.of(self.layouts[number])
        return made


def address(array: npt.NDArray[Any]) -> int:
    """Where an array's numbers are."""
    return int(pa.py_buffer(array).address)


def new_buffer(size: int) -> pa.Buffer:
    """Memory for one buffer of a program."""
    return pa.allocate_buffer(size, resizable=True)


class Filling:
    """Buffers while a program fills them, in a batch of ``count`` rows and ``octets`` bytes."""

    def __init__(self, program: Program, count: int, octets: int) -> None:
        self.program = program
        self.most = [count, *(min(octets // least + 1, MOST) for least in program.least[1:])]
        share, *rates = program.rates
        rows = min(16 + int(share * count), count)
        sizes = [rows, *(16 + int(rate * rows) for rate in rates)]
        sizes = [min(size, most) for size, most in zip(sizes, self.most, strict=True)]
        self.buffers = [
            new_buffer((sizes[each.room] + each.more) * each.width) for each in program.buffers
        ]
        bases = [buffer.address for buffer in self.buffers]
        for number in program.begun:
            memset(bases[number], 0, 4)
        self.sizes = len(State)
        self.bases = self.sizes + len(sizes)
        tables = self.bases + len(bases)
        space = [0] * (len(sizes) + 5 * program.depth)
        self.state = np.array([*[0] * len(State), *sizes, *bases, *space], np.int64)
        at = address(self.state)
        self.state[State.CODE :][:6] = (
            address(program.code), program.plain, at + 8 * self.sizes, at + 8 * self.bases,
            at + 8 * tables, at + 8 * (tables + len(sizes)),
        )  # fmt: skip

    def grow(self) -> None:
        """Makes the room that is needed."""
        room, needed = int(self.state[State.ROOM]), int(self.state[State.NEEDED])
        if needed > MOST:
            raise OverflowError("more than an Arrow array can hold: decode fewer rows at once")
        size = max(needed, min(2 * int(self.state[self.sizes + room]), self.most[room]))
        self.state[self.sizes + room] = size
        for number, each in enumerate(self.program.buffers):
            if each.room == room:
                buffer = self.buffers[number]
                buffer.resize((size + each.more) * each.width)
                self.state[self.bases + number] = buffer.address
