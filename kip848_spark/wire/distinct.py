"""The kernel that finds the distinct strings among many byte strings."""

from __future__ import annotations

import numpy as np

from kip848_spark.wire.memory import (
    HASH_1,
    HASH_2,
    HASH_3,
    HASH_4,
    PREFETCH_DISTANCE,
    big64,
    compile_kernel,
    copy_bytes,
    equal_bytes,
    hash_bytes,
    int32_at,
    is_valid,
    offset_at,
    prefetch,
    put32,
    put64,
    word_at,
)

RECENT_BITS = 15
"""Binary logarithm of the number of entries in the cache of recent strings."""


@compile_kernel(
    "int64(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64,"
    " int64)"
)
def find_distinct(  # noqa: PLR0912
    data: int,
    starts: int,
    ends: int,
    wide: int,
    valid: int,
    first: int,
    count: int,
    seed: int,
    recent: int,
    number_of: int,
    offsets: int,
    octets: int,
    hashes: int,
) -> int:
    """Numbers the distinct byte strings of the rows in the order of their first occurrence.

    ``number_of`` is the address of int32[count]: it receives the number of each row, -1 for null.
    The distinct strings are copied side by side to ``octets``, where they stay in the processor's
    cache, and their offsets to ``offsets`` (int64[count + 1]). ``hashes`` is scratch memory,
    int64[count]. Returns the number of distinct strings.

    ``recent`` (int32[1 << RECENT_BITS], all -1) is a cache that is looked up before the hash table:
    it maps a sample of a string's bytes to the last string with the same sample. A key of the topic
    often repeats soon, and a comparison is cheaper than a hash of all bytes."""
    size = 1024
    slots = np.full(size, -1, np.int32)
    found = 0
    put64(offsets, 0)
    for row in range(count):
        if not is_valid(valid, first + row):
            put32(number_of + 4 * row, -1)
            continue
        start = data + offset_at(starts, wide, row)
        length = data + offset_at(ends, wide, row) - start
        prefetch(start + PREFETCH_DISTANCE)
        sample = 0
        if length >= 8:
            sample = big64(start + length - 8) * HASH_1 + big64(start + length // 2 - 4) * HASH_2
            if length >= 24:
                sample += big64(start + 8) * HASH_3 + big64(start + length - 16) * HASH_4
        candidate = recent + 4 * ((sample >> (64 - RECENT_BITS)) & ((1 << RECENT_BITS) - 1))
        number = int32_at(candidate)
        if number >= 0:
            other = word_at(offsets + 8 * number)
            if word_at(offsets + 8 * number + 8) - other == length and equal_bytes(
                start, octets + other, length
            ):
                put32(number_of + 4 * row, number)
                continue
        hash_ = hash_bytes(start, length, seed)
        slot = hash_ & (size - 1)
        while True:
            number = slots[slot]
            if number < 0:
                number = found
                slots[slot] = number
                put64(hashes + 8 * number, hash_)
                other = word_at(offsets + 8 * number)
                put64(offsets + 8 * number + 8, other + length)
                copy_bytes(octets + other, start, length)
                found += 1
                break
            if word_at(hashes + 8 * number) == hash_:
                other = word_at(offsets + 8 * number)
                if word_at(offsets + 8 * number + 8) - other == length and equal_bytes(
                    start, octets + other, length
                ):
                    break
            slot = (slot + 1) & (size - 1)
        put32(number_of + 4 * row, number)
        put32(candidate, number)
        if 2 * found > size:
            size *= 4
            slots = np.full(size, -1, np.int32)
            for each in range(found):
                slot = word_at(hashes + 8 * each) & (size - 1)
                while slots[slot] >= 0:
                    slot = (slot + 1) & (size - 1)
                slots[slot] = each
    return found
