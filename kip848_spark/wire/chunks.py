"""The kernel that reads all rows: a chunk of them at a time, by program.

A chunk is small enough for the cache to hold its bytes from the first look at them to the last.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kip848_spark.wire import blocks, kernel
from kip848_spark.wire.faults import Reason
from kip848_spark.wire.kernel import GOOD, LOOKED_AT, NEEDED, PLAIN, ROOM_OF, ROOMS
from kip848_spark.wire.memory import (
    AHEAD,
    big16,
    bound,
    compiled,
    inlined,
    int32_at,
    is_there,
    prefetch,
    put8,
    put32,
    put64,
    word_at,
)

CHUNK = 4096
TRUNCATED = int(Reason.TRUNCATED)


@inlined
def sort(  # noqa: PLR0912
    data: int, starts: int, ends: int, wide: int, valid: int, first: int, begin: int, end: int,
    key_of: int, places: int, programs: Any, beyond: int, empty: int, unknown: int, versions: int,
    reason: int, which: Any, order: Any, begins: Any,
) -> None:  # fmt: skip
    """Sorts the rows from ``begin`` to ``end`` by the program that reads them: ``order`` becomes
    those of program 0, then those of 1, and so on; those of ``p`` begin at ``begins[p]``."""
    for program in range(len(begins)):
        begins[program] = 0
    for row in range(begin, end):
        prefetch(data + bound(ends, wide, row) + AHEAD)
        version = -1
        program = -1
        place = int32_at(places + 4 * int32_at(key_of + 4 * row))
        if place >= 0 and is_there(valid, first + row):
            start = bound(starts, wide, row)
            size = bound(ends, wide, row) - start
            if size < 2:
                put8(reason + row, empty if size == 0 else TRUNCATED)
            else:
                version = big16(data + start)
                if 0 <= version < programs.shape[1]:
                    program = programs[place, version]
                elif version > 0:
                    program = beyond
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


@inlined
def run(
    data: int, starts: int, ends: int, wide: int, rows: int, count: int, whole: int, reason: int,
    reason_at: int, tags: int, state: int, ats: Any, stops: Any, froms: Any,
) -> bool:  # fmt: skip
    """Runs a program over its rows of a chunk; whether there was room for them."""
    needed = word_at(state + GOOD) + count - word_at(state + LOOKED_AT)
    if needed > word_at(word_at(state + ROOMS)):
        put64(state + ROOM_OF, 0)
        put64(state + NEEDED, needed)
        return False
    # Where a block was not plain the next ones may not be, either: ever more are read row by row.
    some = blocks.BLOCK
    number = word_at(state + LOOKED_AT)
    while number < count:
        limit = count
        if word_at(state + PLAIN):
            blocks.read(data, starts, ends, wide, rows, count, whole, state, ats, stops, froms)
            some = blocks.BLOCK if word_at(state + LOOKED_AT) > number else 2 * some
            limit = min(count, word_at(state + LOOKED_AT) + some)
        if not kernel.read(
            data, starts, ends, wide, rows, limit, whole, reason, reason_at, tags, state
        ):
            return False
        number = limit
    return True


@compiled(
    "int64(int64, int64, int64, int64, int64, int64, int64, int64, int64, int32[:, ::1], int64,"
    " int64, int64, int64, int64, int64, int64, int64, int64[::1], int16[::1], int64[::1],"
    " int64[::1], int64[::1])"
)
def read(
    data: int,
    starts: int,
    ends: int,
    wide: int,
    valid: int,
    first: int,
    count: int,
    key_of: int,
    places: int,
    programs: Any,
    beyond: int,
    empty: int,
    unknown: int,
    whole: int,
    versions: int,
    reason: int,
    reason_at: int,
    tags: int,
    states: Any,
    which: Any,
    order: Any,
    begins: Any,
    place: Any,
) -> int:
    """Reads all rows, each by the program that the int16 says that it begins with.

    ``places`` (int32) says for each key of ``key_of`` (int32[count]; one before the first is for
    rows without a key) the line of ``programs`` in which to look, -1 for none; ``programs[line,
    int16]`` is the program, -1 for none, ``beyond`` that for any larger int16. ``versions``
    (int32[count]) becomes that int16, -1 where there is none. Rows that begin in no known way get
    the reasons ``empty`` and ``unknown``; with ``whole``, bytes behind the last field are a fault.

    ``states`` are the addresses of the programs' `State`, 0 for those that have none yet. Returns
    the program that needs one, or more room; -1 if all was read. ``place`` is where to go on: the
    chunk's first row, and the program, -1 for a chunk that is not sorted yet. The others are
    room: ``which`` and ``order`` for a chunk, ``begins`` for one more than the programs.
    """
    ats, stops = np.empty(blocks.BLOCK, np.int64), np.empty(blocks.BLOCK, np.int64)
    froms = np.empty(blocks.BLOCK, np.int64)
    while place[0] < count:
        end = min(count, place[0] + CHUNK)
        if place[1] < 0:
            sort(
                data, starts, ends, wide, valid, first, place[0], end, key_of, places, programs,
                beyond, empty, unknown, versions, reason, which, order, begins,
            )  # fmt: skip
            place[1] = 0
        while place[1] < len(states):
            program: int = place[1]
            rows = begins[program + 1] - begins[program]
            if rows:
                state = states[program]
                begin = order.ctypes.data + 8 * begins[program]
                if state == 0 or not run(
                    data, starts, ends, wide, begin, rows, whole, reason, reason_at, tags, state,
                    ats, stops, froms,
                ):  # fmt: skip
                    return program
                put64(state + LOOKED_AT, 0)
            place[1] += 1
        place[0] = end
        place[1] = -1
    return -1
