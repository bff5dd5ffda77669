"""The kernel that reads a whole batch, in chunks.

It sorts the rows of a chunk by the program that reads them, then runs each program over its rows. A
chunk is small enough for its bytes to stay in the processor's cache in between.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kip848_spark.wire import blocks, kernel
from kip848_spark.wire.faults import Reason
from kip848_spark.wire.kernel import CAPACITIES, EXHAUSTED, NEEDED, PLAIN, ROWS_READ, ROWS_SEEN
from kip848_spark.wire.memory import (
    PREFETCH_DISTANCE,
    big16,
    compile_kernel,
    inline,
    int32_at,
    is_valid,
    offset_at,
    prefetch,
    put8,
    put32,
    put64,
    word_at,
)

CHUNK = 4096
"""Rows in a chunk."""
TRUNCATED = int(Reason.TRUNCATED)


@inline
def sort_by_program(  # noqa: PLR0912
    data: int, starts: int, ends: int, wide: int, valid: int, first: int, begin: int, end: int,
    key_of: int, line_of_key: int, programs: Any, fallback: int, empty: int, unknown: int,
    versions: int, reason: int, which: Any, order: Any, begins: Any,
) -> None:  # fmt: skip
    """Sorts the rows from ``begin`` to ``end`` by the program that reads them.

    ``order`` receives the numbers of the rows of program 0, then of program 1, and so on; those of
    program ``p`` start at ``begins[p]``. A row that no program reads gets a reason."""
    for program in range(len(begins)):
        begins[program] = 0
    for row in range(begin, end):
        prefetch(data + offset_at(ends, wide, row) + PREFETCH_DISTANCE)
        version = -1
        program = -1
        line = int32_at(line_of_key + 4 * int32_at(key_of + 4 * row))
        if line >= 0 and is_valid(valid, first + row):
            start = offset_at(starts, wide, row)
            size = offset_at(ends, wide, row) - start
            if size < 2:
                put8(reason + row, empty if size == 0 else TRUNCATED)
            else:
                version = big16(data + start)
                if 0 <= version < programs.shape[1]:
                    program = programs[line, version]
                elif version > 0:
                    program = fallback
                if program < 0:
                    put8(reason + row, unknown)
                else:
                    begins[program + 1] += 1
        which[row - begin] = program
        put32(versions + 4 * row, version)
    for program in range(1, len(begins)):
        begins[program] += begins[program - 1]
    for row in range(begin, end):
        program = which[row - begin]
        if program >= 0:
            order[begins[program]] = row
            begins[program] += 1
    for program in range(len(begins) - 1, 0, -1):
        begins[program] = begins[program - 1]
    begins[0] = 0


@inline
def run_program(
    data: int, starts: int, ends: int, wide: int, rows: int, count: int, exact: int, reason: int,
    reason_at: int, tags: int, state: int, ats: Any, stops: Any, froms: Any,
) -> bool:  # fmt: skip
    """Runs a program over its rows of a chunk. False if a capacity was too small."""
    needed = word_at(state + ROWS_READ) + count - word_at(state + ROWS_SEEN)
    if needed > word_at(word_at(state + CAPACITIES)):
        put64(state + EXHAUSTED, 0)
        put64(state + NEEDED, needed)
        return False
    # After a block that `blocks` could not read, `kernel` reads that block and some after it: the
    # next ones are likely to be like it. Each failure in a row doubles their number.
    some = blocks.BLOCK
    number = word_at(state + ROWS_SEEN)
    while number < count:
        limit = count
        if word_at(state + PLAIN):
            blocks.read_blocks(
                data, starts, ends, wide, rows, count, exact, state, ats, stops, froms
            )
            some = blocks.BLOCK if word_at(state + ROWS_SEEN) > number else 2 * some
            limit = min(count, word_at(state + ROWS_SEEN) + some)
        if not kernel.read_rows(
            data, starts, ends, wide, rows, limit, exact, reason, reason_at, tags, state
        ):
            return False
        number = limit
    return True


@compile_kernel(
    "int64(int64, int64, int64, int64, int64, int64, int64, int64, int64, int32[:, ::1], int64,"
    " int64, int64, int64, int64, int64, int64, int64, int64[::1], int16[::1], int64[::1],"
    " int64[::1], int64[::1])"
)
def read_chunks(
    data: int,
    starts: int,
    ends: int,
    wide: int,
    valid: int,
    first: int,
    count: int,
    key_of: int,
    line_of_key: int,
    programs: Any,
    fallback: int,
    empty: int,
    unknown: int,
    exact: int,
    versions: int,
    reason: int,
    reason_at: int,
    tags: int,
    states: Any,
    which: Any,
    order: Any,
    begins: Any,
    resume_at: Any,
) -> int:
    """Reads all rows of a batch, each with the program for its kind of message and leading int16.

    ``line_of_key`` is the address of int32: for each key in ``key_of`` (int32[count]) the line of
    ``programs``, -1 for none; the entry before the first is for rows without a key.
    ``programs[line, int16]`` is a program, -1 for none, and ``fallback`` the program for any larger
    int16. ``versions`` (int32[count]) receives the int16, -1 where there is none. Rows without
    bytes get the reason ``empty``, rows without a program ``unknown``. With ``exact``,
    bytes after the last field are a fault.

    ``states`` holds the address of each program's state (`program.StateWord`), 0 if it has none
    yet. Returns the program that needs a state or a larger capacity, and -1 when all rows were
    read. ``resume_at`` keeps the progress between calls: the first row of the chunk, and the
    program, -1 if the chunk is not sorted yet. ``which`` and ``order`` (CHUNK entries) and
    ``begins`` (one more than the programs) are scratch arrays."""
    ats, stops = np.empty(blocks.BLOCK, np.int64), np.empty(blocks.BLOCK, np.int64)
    froms = np.empty(blocks.BLOCK, np.int64)
    while resume_at[0] < count:
        end = min(count, resume_at[0] + CHUNK)
        if resume_at[1] < 0:
            sort_by_program(
                data, starts, ends, wide, valid, first, resume_at[0], end, key_of, line_of_key,
                programs, fallback, empty, unknown, versions, reason, which, order, begins,
            )  # fmt: skip
            resume_at[1] = 0
        while resume_at[1] < len(states):
            program: int = resume_at[1]
            rows = begins[program + 1] - begins[program]
            if rows:
                state = states[program]
                begin = order.ctypes.data + 8 * begins[program]
                if state == 0 or not run_program(
                    data, starts, ends, wide, begin, rows, exact, reason, reason_at, tags, state,
                    ats, stops, froms,
                ):  # fmt: skip
                    return program
                put64(state + ROWS_SEEN, 0)
            resume_at[1] += 1
        resume_at[0] = end
        resume_at[1] = -1
    return -1
