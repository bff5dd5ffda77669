"""The kernel that reads blocks of rows, field by field.

Most rows are plain: there is nothing wrong with them, and no array in them. Those of a block are
read side by side, one operation for all of them before the next, which costs about half of reading
them one after the other. What is not plain makes the block be read again, row by row, by `kernel`,
which says what is wrong and where.
"""

from __future__ import annotations

from typing import Any

from kip848_spark.wire.kernel import (
    BASES,
    CODE,
    DONE,
    FORM,
    GOOD,
    INT16,
    INTO,
    LONGEST,
    LOOKED_AT,
    LOW,
    N1,
    N4,
    N8,
    N16,
    NEXT,
    NULLABLE,
    NULLS,
    ROOM,
    ROOMS,
    STEP,
    TEXT,
    TO,
    UTF8,
    VARINT,
    WIDTH,
    octets_of,
    put_number,
    width_of,
)
from kip848_spark.wire.memory import (
    big16,
    big32,
    big64,
    bound,
    compiled,
    copied,
    inlined,
    int16_at,
    int32_at,
    is_utf8,
    octet,
    put8,
    put32,
    put64,
    word_at,
)

BLOCK = 64


@compiled("void(int64, int64, int64[::1], int64, int64)")
def numbers(op: int, to: int, ats: Any, shift: int, count: int) -> None:
    """Puts the number or id that each row has ``shift`` bytes before where it is read."""
    if op == N8:
        for row in range(count):
            put64(to + 8 * row, big64(ats[row] - shift))
    elif op == N4:
        for row in range(count):
            put32(to + 4 * row, big32(ats[row] - shift))
    elif op == N16:
        for row in range(count):
            put64(to + 16 * row, word_at(ats[row] - shift))
            put64(to + 16 * row + 8, word_at(ats[row] - shift + 8))
    else:
        for row in range(count):
            put_number(op, to + width_of(op) * row, ats[row] - shift)


@inlined
def advanced(ats: Any, ends: Any, octets: int, count: int) -> bool:
    """Goes on by ``octets`` in each row; whether each has so many."""
    beyond = 0
    for row in range(count):
        ats[row] += octets
        beyond |= ends[row] - ats[row]
    return beyond >= 0


@inlined
def text(
    pc: int, base: int, room: int, first: int, ats: Any, ends: Any, froms: Any, count: int
) -> bool:
    """Reads a string or bytes of each row, if all are well: first how long they are, then those
    that are not empty, for nobody can guess which these are."""
    form, nullable, utf8 = word_at(pc + FORM), word_at(pc + NULLABLE), word_at(pc + UTF8)
    longest = 0x7E if form == VARINT else LONGEST if utf8 else 0x7FFFFFFF
    if not advanced(ats, ends, 1 if form == VARINT else 2 if form == INT16 else 4, count):
        return False
    to = word_at(base + word_at(pc + TO)) + 4 * first
    nulls = word_at(pc + NULLS)
    null = word_at(base + nulls) + first if nulls >= 0 else 0
    before = int32_at(to)
    filled = 0
    wrong = 0
    for row in range(count):
        at = ats[row]
        if form == VARINT:
            size = octet(at - 1) - 1
        elif form == INT16:
            size = big16(at - 2)
        else:
            size = big32(at - 4)
        wrong |= (size + nullable) | (longest - size)
        if null:
            put8(null + row, 1 if size < 0 else 0)
        size = max(size, 0)
        at += size
        wrong |= ends[row] - at
        ats[row] = at
        froms[filled] = row
        filled += size != 0
        before += size
        put32(to + 4 * row + 4, before)
    if wrong < 0 or before > word_at(room + word_at(pc + ROOM)):
        return False
    into = word_at(base + word_at(pc + INTO))
    for index in range(filled):
        row = froms[index]
        start = int32_at(to + 4 * row)
        size = int32_at(to + 4 * row + 4) - start
        beyond = copied(into + start, ats[row] - size, size)
        if utf8 and beyond and not is_utf8(ats[row] - size, size):
            return False
    return True


@inlined
def tagged(
    code: int, pc: int, base: int, first: int, ats: Any, ends: Any, froms: Any, count: int
) -> bool:
    """Reads the tagged field of each row, if it has no other. Where it is not there it is read
    from the program, which has its default as it would be written: nobody can guess which rows
    have it."""
    if not advanced(ats, ends, 1, count):
        return False
    known, entry = word_at(pc + WIDTH), pc + STEP
    op = word_at(code + word_at(entry + NEXT)) if known else N1
    octets = octets_of(op)
    default = entry + LOW - 2
    beyond = 0
    for row in range(count):
        at = ats[row]
        there = octet(at - 1)
        froms[row] = at if there else default
        at += there * (2 + octets)
        ats[row] = at
        beyond |= (ends[row] - at) | (known - there)
    if beyond < 0:
        return False
    if known == 0:
        return True
    unlike = 0
    for row in range(count):
        unlike |= int16_at(froms[row]) ^ int16_at(default)
        froms[row] += 2
    to = word_at(base + word_at(entry + TO)) + word_at(entry + WIDTH) * first
    numbers(op, to, froms, 0, count)
    return unlike == 0


@inlined
def read_block(
    code: int, data: int, starts: int, stops: int, wide: int, rows: int, count: int, whole: int,
    base: int, room: int, first: int, ats: Any, ends: Any, froms: Any,
) -> bool:  # fmt: skip
    """Reads ``count`` rows, whose numbers are at ``rows``, as the rows ``first`` and so on of what
    is filled; whether that could be done."""
    for row in range(count):
        record = word_at(rows + 8 * row)
        ats[row] = data + bound(starts, wide, record) + 2
        ends[row] = data + bound(stops, wide, record)
    pc = code
    while True:
        op = word_at(pc)
        if op <= N16:
            # numbers and ids side by side are there or not together
            octets = 0
            behind = pc
            while word_at(behind) <= N16:
                octets += octets_of(word_at(behind))
                behind += STEP
            if not advanced(ats, ends, octets, count):
                return False
            while pc < behind:
                op = word_at(pc)
                to = word_at(base + word_at(pc + TO)) + width_of(op) * first
                numbers(op, to, ats, octets, count)
                octets -= octets_of(op)
                pc += STEP
        elif op == TEXT:
            if not text(pc, base, room, first, ats, ends, froms, count):
                return False
            pc += STEP
        elif op == DONE:
            break
        else:
            if not tagged(code, pc, base, first, ats, ends, froms, count):
                return False
            pc = code + word_at(pc + NEXT)
    trailing = 0
    for row in range(count):
        trailing |= ats[row] ^ ends[row]
    return trailing == 0 or whole == 0


@inlined
def read(
    data: int, starts: int, ends: int, wide: int, rows: int, count: int, whole: int, state: int,
    ats: Any, stops: Any, froms: Any,
) -> None:  # fmt: skip
    """Reads rows as `kernel.read` does, up to a block that is not plain. The last three are room
    for int64[BLOCK]."""
    number, good = word_at(state + LOOKED_AT), word_at(state + GOOD)
    code, room, base = word_at(state + CODE), word_at(state + ROOMS), word_at(state + BASES)
    while number < count:
        size = min(BLOCK, count - number)
        if not read_block(
            code, data, starts, ends, wide, rows + 8 * number, size, whole, base, room, good,
            ats, stops, froms,
        ):  # fmt: skip
            break
        into = word_at(base) + 8 * good
        for row in range(size):
            put64(into + 8 * row, word_at(rows + 8 * (number + row)))
        number += size
        good += size
    put64(state + LOOKED_AT, number)
    put64(state + GOOD, good)
