"""Runs programs over rows and makes Arrow arrays of what they fill."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kip848_spark.wire import columns
from kip848_spark.wire.faults import Bytes, Reason, Rows
from kip848_spark.wire.layout import Struct
from kip848_spark.wire.program import (
    Fields,
    Fixed,
    Lacking,
    Lists,
    Made,
    Maybe,
    Octets,
    Program,
)

MOST = 0x7FFFFFFF
"""What an Arrow offset of 32 bits can say."""
FIRST = 2
"""Elements or bytes that are made room for a row at first."""


@dataclass(frozen=True)
class Source:
    """Rows of a buffer: row ``i`` is ``data[starts[i] : ends[i]]``, or null if there is a bitmap
    ``valid`` and its bit ``first + i`` is not set."""

    data: pa.Buffer | None
    starts: Rows
    ends: Rows
    valid: pa.Buffer | None = None
    first: int = 0

    @classmethod
    def of(cls, array: pa.Array) -> Source:
        """The rows of a binary array."""
        width: type[np.signedinteger] = np.int32
        if pa.types.is_large_binary(array.type):
            width = np.int64
        valid, offsets, content = array.buffers()
        if not len(array):
            return cls(content, np.zeros(0, np.int64), np.zeros(0, np.int64))
        bounds = np.frombuffer(offsets, width)[array.offset : array.offset + len(array) + 1]
        wide = bounds.astype(np.int64)
        return cls(
            content, wide[:-1], wide[1:], valid if array.null_count else None, array.offset
        )

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def address(self) -> int:
        return 0 if self.data is None else int(self.data.address)

    @property
    def bitmap(self) -> int:
        return 0 if self.valid is None else int(self.valid.address)

    def distinct(self) -> tuple[npt.NDArray[np.int32], Source]:
        """int32[n]: which of the distinct rows each row is, -1 for null; and these, in the order in
        which they come first."""
        from kip848_spark.wire import kernel

        count = len(self)
        number_of, firsts = np.empty(count, np.int32), np.empty(count, np.int64)
        found = kernel.distinct(
            self.address, self.starts, self.ends, self.bitmap, self.first, _SEED, number_of, firsts
        )
        firsts = firsts[:found]
        return number_of, Source(self.data, self.starts[firsts], self.ends[firsts])


ONE_LINE = np.zeros(1, np.int32)
"""The places of rows of which all are on the first line."""
_SEED = int.from_bytes(os.urandom(8), "little", signed=True) | 1
"""Nobody knows which keys share a hash."""


@dataclass(frozen=True)
class Faults:
    """What is wrong with rows: ``reason`` is uint8[n], ``at`` int64[n] (a byte of the row),
    ``tags`` int32[n]: how many unknown tags a row that was read has."""

    reason: npt.NDArray[np.uint8]
    at: Rows
    tags: npt.NDArray[np.int32]

    @classmethod
    def none(cls, count: int) -> Faults:
        return cls(np.zeros(count, np.uint8), np.zeros(count, np.int64), np.zeros(count, np.int32))


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
        for place, line in enumerate(lines):
            for number, layout in line.items():
                self.numbers[place, number] = len(self.layouts)
                self.layouts.append(layout)
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
        """Reads all rows that are not null. ``places[key_of]`` is the line of each row, -1 for
        none. Also gives the int16 of each row, -1 where there is none, and the faults.

        Rows without bytes fail as ``empty``, those with an int16 that is not known as ``unknown``.
        With ``whole``, bytes behind the last field are a fault.
        """
        from kip848_spark.wire import kernel

        count = len(key_of)
        faults = Faults.none(count)
        versions, which = np.empty(count, np.int32), np.empty(count, np.int32)
        order = np.empty(count, np.int64)
        begins = np.zeros(len(self.layouts) + 1, np.int64)
        octets = np.zeros(len(self.layouts), np.int64)
        kernel.sort(
            source.address, source.starts, source.ends, source.bitmap, source.first, key_of, places,
            self.numbers, self.beyond, int(empty), int(unknown), versions, which, order, begins, octets, faults.reason,
        )  # fmt: skip
        found = []
        for number in np.flatnonzero(octets).tolist():
            rows = order[begins[number] : begins[number + 1]]
            program = self.programs[number] or self._made(number)
            filling = Filling(program, len(rows), int(octets[number]))
            good = filling.fill(source, rows, faults, whole)
            fields = [filling.made(each, good) for each in program.fields.fields]
            found.append(Read(number, rows[:good], fields))
        return found, versions, faults

    def _made(self, number: int) -> Program:
        self.programs[number] = made = Program.of(self.layouts[number])
        return made


class Filling:
    """Buffers while a program fills them."""

    def __init__(self, program: Program, count: int, octets: int) -> None:
        self.program = program
        self.octets = octets
        self.room = np.full(len(program.least), 16 + FIRST * count, np.int64)
        self.room[0] = count
        self.buffers = [
            pa.allocate_buffer(
                (int(self.room[each.room]) + each.more) * each.width, resizable=True
            )
            for each in program.buffers
        ]
        for each, buffer in zip(program.buffers, self.buffers, strict=True):
            if each.more:
                np.frombuffer(buffer, np.int32, 1)[0] = 0
        self.base = np.array([buffer.address for buffer in self.buffers], np.int64)

    def fill(self, source: Source, rows: Rows, faults: Faults, whole: bool) -> int:
        """Reads all rows; how many could be."""
        from kip848_spark.wire import kernel

        program = self.program
        line = np.zeros(len(program.least), np.int64)
        stack = np.zeros(5 * program.depth, np.int64)
        need = np.zeros(3, np.int64)
        while True:
            small = kernel.read(
                program.code.ctypes.data, source.address, source.starts, source.ends, rows, whole,
                self.base.ctypes.data, self.room.ctypes.data, line.ctypes.data, need[0],
                stack, faults.reason, faults.at, faults.tags, need,
            )  # fmt: skip
            if small < 0:
                return int(need[1])
            self._grow(small, int(need[2]))

    def _grow(self, room: int, needed: int) -> None:
        if needed > MOST:
            raise OverflowError("more than an Arrow array can hold: decode fewer rows at once")
        bound = self.octets // self.program.least[room] + 1
        size = max(needed, min(2 * int(self.room[room]), bound, MOST))
        self.room[room] = size
        for number, each in enumerate(self.program.buffers):
            if each.room == room:
                buffer = self.buffers[number]
                buffer.resize((size + each.more) * each.width)
                self.base[number] = buffer.address

    # -- arrays --------------------------------------------------------------------------------

    def made(self, made: Made, count: int) -> pa.Array:
        """The array of ``count`` values."""
        match made:
            case Fixed():
                buffer = self.buffers[made.buffer]
                if made.arrow == pa.bool_():
                    return pa.array(np.frombuffer(buffer, np.uint8, count) != 0)
                return pa.Array.from_buffers(made.arrow, count, [None, buffer])
            case Octets():
                return pa.Array.from_buffers(
                    made.arrow, count,
                    [self._bitmap(made.nulls, count), self.buffers[made.offsets],
                     self.buffers[made.octets]],
                )  # fmt: skip
            case Lists():
                elements = self.made(made.element, self._end(made.offsets, count))
                return pa.Array.from_buffers(
                    made.arrow, count,
                    [self._bitmap(made.nulls, count), self.buffers[made.offsets]],
                    children=[elements],
                )  # fmt: skip
            case Maybe():
                return self._maybe(made, count)
            case Lacking():
                return columns.nulls(count, made.arrow)
            case Fields():
                return pa.StructArray.from_arrays(
                    [self.made(each, count) for each in made.fields], fields=list(made.arrow)
                )

    def _maybe(self, made: Maybe, count: int) -> pa.Array:
        there = self._end(made.offsets, count)
        if not there:
            return columns.shared(made.default, count, made.arrow)
        elements = self.made(made.element, there)
        if there == count:
            return elements
        rows = np.flatnonzero(np.diff(np.frombuffer(self.buffers[made.offsets], np.int32, count + 1)))
        return columns.gather([(rows, elements)], count, made.arrow, made.default)

    def _end(self, offsets: int, count: int) -> int:
        return int(np.frombuffer(self.buffers[offsets], np.int32, count + 1)[count])

    def _bitmap(self, nulls: int, count: int) -> pa.Buffer | None:
        if nulls < 0:
            return None
        null = np.frombuffer(self.buffers[nulls], np.uint8, count)
        if not null.any():
            return None
        return pa.py_buffer(np.packbits(null == 0, bitorder="little"))
