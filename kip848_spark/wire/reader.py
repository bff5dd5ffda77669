"""Runs programs over the rows of binary arrays, and makes Arrow arrays of the buffers they fill."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from ctypes import memset, string_at
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kip848_spark.wire.array_types import Int32Array, Int64Array
from kip848_spark.wire.faults import Faults, Reason
from kip848_spark.wire.layout import StructNode
from kip848_spark.wire.output_buffers import HEADROOM, OutputBuffers
from kip848_spark.wire.program import Program, StateWord

MAX_ARROW_OFFSET = 0x7FFFFFFF
"""The largest offset in an Arrow array with 32-bit offsets."""


@dataclass(frozen=True)
class ByteRows:
    """``count`` rows of bytes in memory, as the kernels take them.

    Row ``i`` is ``data[starts[i]:ends[i]]``; it is null if bit ``first + i`` of the bitmap
    ``valid`` is 0. ``data``, ``starts``, ``ends`` and ``valid`` are addresses, 0 for none, of
    memory that ``owner`` keeps alive. The offsets are int64 if ``wide``, else int32. ``octets`` is
    the number of bytes in all rows.
    """

    count: int
    data: int
    starts: int
    ends: int
    wide: bool
    valid: int
    first: int
    octets: int
    owner: object

    @classmethod
    def of(cls, array: pa.Array) -> ByteRows:
        """The rows of a binary[n] or large_binary[n] array."""
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

    def row(self, number: int) -> bytes:
        """A copy of one row that is not null."""
        width = 8 if self.wide else 4
        start, end = (
            int.from_bytes(string_at(bounds + width * number, width), sys.byteorder)
            for bounds in (self.starts, self.ends)
        )
        return string_at(self.data + start, end - start)

    def distinct(self) -> tuple[Int32Array, ByteRows]:
        """The distinct rows in the order of their first occurrence, and int32[count]: for each row
        the number of its distinct row, -1 for null."""
        from kip848_spark.wire import distinct

        number_of, hashes = allocate(self.count, np.int32), allocate(self.count, np.int64)
        recent = np.full(1 << distinct.RECENT_BITS, -1, np.int32)
        offsets, octets = allocate(self.count + 1, np.int64), allocate(self.octets, np.uint8)
        start = address(offsets)
        found = distinct.find_distinct(
            self.data, self.starts, self.ends, self.wide, self.valid, self.first, self.count,
            _HASH_SEED, address(recent), address(number_of), start, address(octets),
            address(hashes),
        )  # fmt: skip
        owner = (offsets, octets)
        return number_of, ByteRows(
            found, address(octets), start, start + 8, True, 0, 0, int(offsets[found]), owner
        )


def allocate(count: int, type_: type[np.generic]) -> npt.NDArray[Any]:
    """An uninitialized array of Arrow's memory pool, which reuses freed memory: memory that is new
    to the process would first have to be mapped by the operating system."""
    return np.frombuffer(pa.allocate_buffer(count * np.dtype(type_).itemsize), type_)


LINE_ZERO = np.zeros(2, np.int32)
"""``line_of_key`` where every row is read by the first line of a `ProgramTable`."""
_HASH_SEED = int.from_bytes(os.urandom(8), "little", signed=True) | 1
"""The hash seed is random, so an attacker cannot choose keys that collide."""


@dataclass(frozen=True)
class ReadRows:
    """The rows that one program read without a fault. ``fields`` are their columns, one array with
    ``len(rows)`` values for each field of the layout."""

    program: int
    rows: Int64Array
    fields: list[pa.Array]


class ProgramTable:
    """Programs by the kind of message (the *line*) and by the int16 that the message begins with:
    a key's type or a version. A layout is compiled when it is first needed."""

    def __init__(self, lines: Sequence[Mapping[int, StructNode]], fallback: int = -1) -> None:
        """``lines``: for each kind of message, its layouts by int16. ``fallback``: the program for
        an int16 above all known ones, -1 for none."""
        self.fallback = fallback
        width = 1 + max((number for line in lines for number in line), default=-1)
        self.numbers = np.full((len(lines) + 1, width), -1, np.int32)
        self.layouts: list[StructNode] = []
        self.of: list[tuple[int, int]] = []
        """The line and the int16 of each program."""
        for index, line in enumerate(lines):
            for number, layout in line.items():
                self.numbers[index, number] = len(self.layouts)
                self.layouts.append(layout)
                self.of.append((index, number))
        self.programs: list[Program | None] = [None] * len(self.layouts)

    def read(
        self,
        source: ByteRows,
        key_of: Int32Array,
        line_of_key: Int32Array,
        empty: Reason,
        unknown: Reason,
        exact: bool = True,
    ) -> tuple[list[ReadRows], Int32Array, Faults]:
        """Reads all rows of ``source`` that are not null.

        ``key_of`` (int32[n]) numbers the key of each row, and ``line_of_key[1 + number]`` is the
        line that reads the rows with that key, -1 for none. Returns the rows that were read, the
        int16 of each row (int32[n], -1 where there is none), and the faults.

        A row without bytes has the fault ``empty``, one with an unknown int16 ``unknown``. With
        ``exact``, bytes after the last field are a fault.
        """
        from kip848_spark.wire import chunks

        count, programs = source.count, len(self.layouts)
        faults = Faults.none(count)
        versions, states = allocate(count, np.int32), np.zeros(programs, np.int64)
        which, order = allocate(chunks.CHUNK, np.int16), allocate(chunks.CHUNK, np.int64)
        begins, resume_at = np.empty(programs + 1, np.int64), np.array([0, -1])
        runs: dict[int, ProgramRun] = {}
        while True:
            number = chunks.read_chunks(
                source.data, source.starts, source.ends, source.wide, source.valid, source.first,
                count, address(key_of), address(line_of_key) + 4, self.numbers, self.fallback,
                int(empty), int(unknown), exact, address(versions),
                address(faults.reason), address(faults.at), address(faults.tags), states, which,
                order, begins, resume_at,
            )  # fmt: skip
            if number < 0:
                break
            if number in runs:
                runs[number].grow()
            else:
                program = self.programs[number] or self._compile(number)
                runs[number] = run = ProgramRun(program, count, source.octets)
                states[number] = address(run.state)
        found = []
        for number, run in sorted(runs.items()):
            if read := int(run.state[StateWord.ROWS_READ]):
                buffers = OutputBuffers(run.buffers, run.program.usage, read)
                rows = np.frombuffer(run.buffers[0], np.int64, read)
                run.program.usage[0] = HEADROOM * read / count
                found.append(ReadRows(number, rows, run.program.fields.build_fields(buffers, read)))
        return found, versions, faults

    def _compile(self, number: int) -> Program:
        self.programs[number] = program = Program.of(self.layouts[number])
        return program


def address(array: npt.NDArray[Any]) -> int:
    """The address of an array's first element."""
    return int(pa.py_buffer(array).address)


def new_buffer(size: int) -> pa.Buffer:
    """``size`` bytes of memory for a program's output."""
    return pa.allocate_buffer(size, resizable=True)


class ProgramRun:
    """The buffers and the state of one program in a batch of ``count`` rows, ``octets`` bytes."""

    def __init__(self, program: Program, count: int, octets: int) -> None:
        self.program = program
        by_bytes = (octets // min_bytes + 1 for min_bytes in program.min_bytes[1:])
        self.limits = [count, *(min(limit, MAX_ARROW_OFFSET) for limit in by_bytes)]
        share, *usage = program.usage
        rows = min(16 + int(share * count), count)
        sizes = [rows, *(16 + int(units * rows) for units in usage)]
        sizes = [min(size, limit) for size, limit in zip(sizes, self.limits, strict=True)]
        self.buffers = [
            new_buffer((sizes[spec.capacity] + spec.extra) * spec.width) for spec in program.buffers
        ]
        bases = [buffer.address for buffer in self.buffers]
        for number in program.offset_buffers:
            memset(bases[number], 0, 4)
        self.sizes = len(StateWord)
        self.bases = self.sizes + len(sizes)
        tables = self.bases + len(bases)
        scratch = [0] * (len(sizes) + 5 * program.depth)
        self.state = np.array([*[0] * len(StateWord), *sizes, *bases, *scratch], np.int64)
        start = address(self.state)
        self.state[StateWord.CODE :][:6] = (
            address(program.code), program.plain, start + 8 * self.sizes, start + 8 * self.bases,
            start + 8 * tables, start + 8 * (tables + len(sizes)),
        )  # fmt: skip

    def grow(self) -> None:
        """Enlarges the exhausted capacity, at least to the size needed. Raises OverflowError if an
        Arrow array cannot be that large."""
        number, needed = (int(self.state[word]) for word in (StateWord.EXHAUSTED, StateWord.NEEDED))
        if needed > MAX_ARROW_OFFSET:
            raise OverflowError("The batch exceeds the size of an Arrow array: decode fewer rows.")
        doubled = 2 * int(self.state[self.sizes + number])
        size = max(needed, min(doubled, self.limits[number]))
        self.state[self.sizes + number] = size
        for index, spec in enumerate(self.program.buffers):
            if spec.capacity == number:
                buffer = self.buffers[index]
                buffer.resize((size + spec.extra) * spec.width)
                self.state[self.bases + index] = buffer.address
