"""Runs programs over rows and makes Arrow arrays of what they fill."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kip848_spark.wire.faults import Faults, Reason, Rows
from kip848_spark.wire.filled import Filled
from kip848_spark.wire.layout import Struct
from kip848_spark.wire.program import Program

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
        from kip848_spark.wire import sorting

        number_of, hashes = room(self.count, np.int32), room(self.count, np.int64)
        guesses = np.full(1 << sorting.GUESSES, -1, np.int32)
        offsets, octets = room(self.count + 1, np.int64), room(self.octets, np.uint8)
        at = address(offsets)
        found = sorting.distinct(
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
        found: list[list[tuple[int, int, Struct]]] = []
        for place, line in enumerate(lines):
            for number, layout in line.items():
                same = next((each for each in found if _alike(each[0][2], layout)), None)
                if same is None:
                    found.append(same := [])
                same.append((place, number, layout))
        self.layouts: list[Struct] = []
        self.of: list[tuple[int, int]] = []
        """Line and int16 of each program."""
        self.alike: list[range] = []
        """Programs of which one can read what is the others', as their layouts are the same."""
        for same in found:
            self.alike.append(range(len(self.layouts), len(self.layouts) + len(same)))
            for place, number, layout in same:
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
        from kip848_spark.wire import sorting

        count = source.count
        faults = Faults.none(count)
        versions, which = room(count, np.int32), room(count, np.int16)
        order = room(count, np.int64)
        begins = np.zeros(len(self.layouts) + 1, np.int64)
        octets = np.zeros(len(self.layouts), np.int64)
        at = Addresses(
            address(order), address(faults.reason), address(faults.at), address(faults.tags)
        )
        sorting.sort(
            source.data, source.starts, source.ends, source.wide, source.valid, source.first, count,
            address(key_of), address(places) + 4, self.numbers, self.beyond,
            int(empty), int(unknown), address(versions), address(which), at.rows,
            begins, octets, at.reason,
        )  # fmt: skip
        found: list[Read] = []
        bounds, sizes = begins.tolist(), octets.tolist()
        for numbers in self.alike:
            first, end = bounds[numbers.start], bounds[numbers.stop]
            if first == end:
                continue
            program = self.programs[numbers.start] or self._made(numbers.start)
            filling = Filling(program, end - first, sum(sizes[numbers.start : numbers.stop]))
            good = filling.fill(source, at, first, whole)
            filled = Filled(filling.buffers, program.rates, end - first)
            arrays = program.fields.arrays(filled, good)
            found += _parted(numbers, which, order[first : first + good], arrays)
        return found, versions, faults

    def _made(self, number: int) -> Program:
        self.programs[number] = made = Program.of(self.layouts[number])
        return made


def _alike(one: Struct, other: Struct) -> bool:
    """Whether two layouts are the same but for the names of their fields."""
    halves = (
        [(slot.node, slot.tag, slot.default, slot.arrow) for slot in layout.slots]
        for layout in (one, other)
    )
    return one.flexible == other.flexible and next(halves) == next(halves)


def _parted(
    numbers: range, which: npt.NDArray[np.int16], rows: Rows, arrays: list[pa.Array]
) -> Iterator[Read]:
    """What was read together, by program; the rows are in that order."""
    if len(numbers) == 1:
        yield Read(numbers.start, rows, arrays)
        return
    ends = np.searchsorted(which[rows], numbers, side="right").tolist()
    for number, first, end in zip(numbers, [0, *ends], ends, strict=False):
        if first < end:
            part = [array.slice(first, end - first) for array in arrays]
            yield Read(number, rows[first:end], part)


def address(array: npt.NDArray[Any]) -> int:
    """Where an array's numbers are."""
    return int(pa.py_buffer(array).address)


class Addresses(NamedTuple):
    """Where the numbers of rows are, in the order in which they are read, and their faults."""

    rows: int
    reason: int
    reason_at: int
    tags: int


def new_buffer(size: int) -> pa.Buffer:
    """Memory for one buffer of a program."""
    return pa.allocate_buffer(size, resizable=True)


class Filling:
    """Buffers while a program fills them."""

    def __init__(self, program: Program, count: int, octets: int) -> None:
        self.program = program
        self.octets = octets
        self.count = count
        sizes = [
            min(16 + int(rate * count), octets // least + 1)
            for rate, least in zip(program.rates, program.least, strict=True)
        ]
        sizes[0] = count
        self.buffers = [
            new_buffer((sizes[each.room] + each.more) * each.width) for each in program.buffers
        ]
        bases = [buffer.address for buffer in self.buffers]
        rooms = len(sizes)
        # What the kernel works with, side by side: need, room, base, row, stack.
        self.work = np.array(
            [0, 0, 0, *sizes, *bases, *[0] * (rooms + 5 * program.depth)], np.int64
        )
        self.rooms, self.bases = 3, 3 + rooms

    def fill(self, source: Source, at: Addresses, first: int, whole: bool) -> int:
        """Reads all rows, whose numbers begin with the ``first`` one; how many could be."""
        from kip848_spark.wire import kernel

        program, work, code = self.program, address(self.work), address(self.program.code)
        rows = work + 8 * (self.bases + len(self.buffers))
        while True:
            small = kernel.read(
                code, source.data, source.starts, source.ends, source.wide,
                at.rows + 8 * first, self.count, whole,
                work + 8 * self.bases, work + 8 * self.rooms, rows, rows + 8 * len(program.least),
                code + 8 * program.begun, len(program.code) - program.begun,
                at.reason, at.reason_at, at.tags, work,
            )  # fmt: skip
            if small < 0:
                return int(self.work[1])
            self._grow(small, int(self.work[2]))

    def _grow(self, room: int, needed: int) -> None:
        if needed > MOST:
            raise OverflowError("more than an Arrow array can hold: decode fewer rows at once")
        bound = self.octets // self.program.least[room] + 1
        size = max(needed, min(2 * int(self.work[self.rooms + room]), bound, MOST))
        self.work[self.rooms + room] = size
        for number, each in enumerate(self.program.buffers):
            if each.room == room:
                buffer = self.buffers[number]
                buffer.resize((size + each.more) * each.width)
                self.work[self.bases + number] = buffer.address
