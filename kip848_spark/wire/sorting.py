"""Kernels that look at rows before they are read: which are the same, and what reads which."""

from __future__ import annotations

from typing import Any

import numpy as np

from kip848_spark.wire.faults import Reason
from kip848_spark.wire.memory import (
    FOUR,
    ONE,
    THREE,
    TWO,
    big16,
    big64,
    bound,
    compiled,
    copied,
    hashed,
    int16_at,
    int32_at,
    is_there,
    put8,
    put16,
    put32,
    put64,
    same,
    word_at,
)

TRUNCATED = int(Reason.TRUNCATED)
GUESSES = 15
"""Bits of the few words by which a string is guessed."""


@compiled(
    "int64(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64,"
    " int64)"
)
def distinct(  # noqa: PLR0912
    data: int,
    starts: int,
    ends: int,
    wide: int,
    valid: int,
    first: int,
    count: int,
    seed: int,
    guesses: int,
    number_of: int,
    offsets: int,
    octets: int,
    hashes: int,
) -> int:
    """Numbers the distinct byte strings of the rows in the order in which they come.

    ``number_of`` is where int32[count] is to be: each row's number, -1 where it is null. The
    strings are put side by side at ``octets``, so that they stay in the cache, and where each ends
    at ``offsets`` (int64[count + 1]). Returns how many they are.

    Before a string is looked up by its hash, which is of all its bytes and nobody can foresee, the
    one that was last seen with the same few words is compared (``guesses``: int32[1 << GUESSES],
    all -1). ``hashes`` is room for int64[count].
    """
    size = 1024
    slots = np.full(size, -1, np.int32)
    found = 0
    put64(offsets, 0)
    for row in range(count):
        if not is_there(valid, first + row):
            put32(number_of + 4 * row, -1)
            continue
        start = data + bound(starts, wide, row)
        length = data + bound(ends, wide, row) - start
        few = 0
        if length >= 8:
            few = big64(start + length - 8) * ONE + big64(start + length // 2 - 4) * TWO
            if length >= 24:
                few += big64(start + 8) * THREE + big64(start + length - 16) * FOUR
        guess = guesses + 4 * ((few >> (64 - GUESSES)) & ((1 << GUESSES) - 1))
        number = int32_at(guess)
        if number >= 0:
            other = word_at(offsets + 8 * number)
            if word_at(offsets + 8 * number + 8) - other == length and same(
                start, octets + other, length
            ):
                put32(number_of + 4 * row, number)
                continue
        hash_ = hashed(start, length, seed)
        slot = hash_ & (size - 1)
        while True:
            number = slots[slot]
            if number < 0:
                number = found
                slots[slot] = number
                put64(hashes + 8 * number, hash_)
                other = word_at(offsets + 8 * number)
                put64(offsets + 8 * number + 8, other + length)
                copied(octets + other, start, length)
                found += 1
                break
            if word_at(hashes + 8 * number) == hash_:
                other = word_at(offsets + 8 * number)
                if word_at(offsets + 8 * number + 8) - other == length and same(
                    start, octets + other, length
                ):
                    break
            slot = (slot + 1) & (size - 1)
        put32(number_of + 4 * row, number)
        put32(guess, number)
        if 2 * found > size:
            size *= 4
            slots = np.full(size, -1, np.int32)
            for each in range(found):
                slot = word_at(hashes + 8 * each) & (size - 1)
                while slots[slot] >= 0:
                    slot = (slot + 1) & (size - 1)
                slots[slot] = each
    return found


@compiled(
    "void(int64, int64, int64, int64, int64, int64, int64, int64, int64, int32[:, ::1], int64,"
    " int64, int64, int64, int64, int64, int64[::1], int64[::1], int64)"
)
def sort(
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
    versions: int,
    which: int,
    order: int,
    begins: Any,
    octets: Any,
    reason: int,
) -> None:
    """Sorts rows by the program that reads them, which the int16 that they begin with says.

    ``places`` (int32) says for each key of ``key_of`` (int32[count]; one before the first is for
    rows without a key) the line of ``programs`` in which to look, -1 for none; ``programs[line,
    int16]`` is the program, -1 for none, ``beyond`` that for any larger int16. ``versions``
    (int32[count]) becomes that int16, -1 where there is none. ``order`` (int64) becomes the rows of
    program 0, then those of 1, and so on; those of ``p`` begin at ``begins[p]`` and have
    ``octets[p]`` bytes. Rows that begin in no known way get the reasons ``empty`` and ``unknown``.
    ``which`` is room for int16[count].
    """
    for row in range(count):
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
                    octets[program] += size
        put16(which + 2 * row, program)
        put32(versions + 4 * row, version)
    for program in range(1, len(begins)):
        begins[program] += begins[program - 1]
    for row in range(count):
        program = int16_at(which + 2 * row)
        if program >= 0:
            put64(order + 8 * begins[program], row)
            begins[program] += 1
    for program in range(len(begins) - 1, 0, -1):
        begins[program] = begins[program - 1]
    begins[0] = 0
