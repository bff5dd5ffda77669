"""The kernel that finds the distinct ones of many byte strings."""

from __future__ import annotations

import numpy as np

from kip848_spark.wire.memory import (
    AHEAD,
    FOUR,
    ONE,
    THREE,
    TWO,
    big64,
    bound,
    compiled,
    copied,
    hashed,
    int32_at,
    is_there,
    prefetch,
    put32,
    put64,
    same,
    word_at,
)

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
        prefetch(start + AHEAD)
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
