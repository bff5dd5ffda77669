"""The kernel that reads blocks of messages, field by field.

Most messages have no arrays and no faults. For a block of such rows this kernel executes one
operation for all rows before the next operation, which takes about half the time of reading them
one after another. It does not report faults: if a row of a block has one, or has a form that this
kernel does not handle, `kernel.read_rows` reads the whole block again.
"""

from __future__ import annotations

from typing import Any

from kip848_spark.wire.kernel import (
    BASES,
    CAPACITIES,
    CAPACITY,
    CODE,
    DONE,
    FORM,
    INT16,
    INTO,
    LONGEST,
    LOW,
    N1,
    N4,
    N8,
    N16,
    NEXT,
    NULLABLE,
    NULLS,
    ROWS_READ,
    ROWS_SEEN,
    STEP,
    TEXT,
    TO,
    UTF8,
    VARINT,
    WIDTH,
    buffer_width,
    copy_number,
    wire_width,
)
from kip848_spark.wire.memory import (
    big16,
    big32,
    big64,
    compile_kernel,
    copy_bytes,
    inline,
    int16_at,
    int32_at,
    is_utf8,
    offset_at,
    put8,
    put32,
    put64,
    uint8_at,
    word_at,
)

BLOCK = 64
"""Rows in a block."""


@compile_kernel("void(int64, int64, int64[::1], int64, int64)")
def read_numbers(op: int, to: int, ats: Any, shift: int, count: int) -> None:
    """Copies the number or id that is ``shift`` bytes before each address of ``ats`` (int64)."""
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
            copy_number(op, to + buffer_width(op) * row, ats[row] - shift)


@inline
def advance(ats: Any, ends: Any, width: int, count: int) -> bool:
    """Adds ``width`` bytes to the position of each row; False if a row has fewer bytes left."""
    beyond = 0
    for row in range(count):
        ats[row] += width
        beyond |= ends[row] - ats[row]
    return beyond >= 0


@inline
def read_text(
    pc: int, base: int, sizes: int, first: int, ats: Any, ends: Any, froms: Any, count: int
) -> bool:
    """Reads a string or bytes of each row; False if one is not valid.

    A first loop reads all lengths, a second one copies the values that are not empty. Testing for
    emptiness in a single loop would be a branch that the processor mispredicts.
    """
    form, nullable, utf8 = word_at(pc + FORM), word_at(pc + NULLABLE), word_at(pc + UTF8)
    longest = 0x7E if form == VARINT else LONGEST if utf8 else 0x7FFFFFFF
    if not advance(ats, ends, 1 if form == VARINT else 2 if form == INT16 else 4, count):
        return False
    to = word_at(base + word_at(pc + TO)) + 4 * first
    nulls = word_at(pc + NULLS)
    null = word_at(base + nulls) + first if nulls >= 0 else 0
    before = int32_at(to)
    not_empty = 0
    wrong = 0
    for row in range(count):
        at = ats[row]
        if form == VARINT:
            size = uint8_at(at - 1) - 1
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
        froms[not_empty] = row
        not_empty += size != 0
        before += size
        put32(to + 4 * row + 4, before)
    if wrong < 0 or before > word_at(sizes + word_at(pc + CAPACITY)):
        return False
    into = word_at(base + word_at(pc + INTO))
    for index in range(not_empty):
        row = froms[index]
        start = int32_at(to + 4 * row)
        size = int32_at(to + 4 * row + 4) - start
        beyond = copy_bytes(into + start, ats[row] - size, size)
        if utf8 and beyond and not is_utf8(ats[row] - size, size):
            return False
    return True


@inline
def read_tagged(
    code: int, pc: int, base: int, first: int, ats: Any, ends: Any, froms: Any, count: int
) -> bool:
    """Reads the tagged field of each row; False if a row has a tagged field that is not known.

    Where the field is absent, it is read from the program, which holds its default in encoded form:
    a branch on the presence would be mispredicted."""
    if not advance(ats, ends, 1, count):
        return False
    known, entry = word_at(pc + WIDTH), pc + STEP
    op = word_at(code + word_at(entry + NEXT)) if known else N1
    width = wire_width(op)
    default = entry + LOW - 2
    beyond = 0
    for row in range(count):
        at = ats[row]
        present = uint8_at(at - 1)
        froms[row] = at if present else default
        at += present * (2 + width)
        ats[row] = at
        beyond |= (ends[row] - at) | (known - present)
    if beyond < 0:
        return False
    if known == 0:
        return True
    wrong_tag = 0
    for row in range(count):
        wrong_tag |= int16_at(froms[row]) ^ int16_at(default)
        froms[row] += 2
    to = word_at(base + word_at(entry + TO)) + word_at(entry + WIDTH) * first
    read_numbers(op, to, froms, 0, count)
    return wrong_tag == 0


@inline
def read_block(
    code: int, data: int, starts: int, stops: int, wide: int, rows: int, count: int, exact: int,
    base: int, sizes: int, first: int, ats: Any, ends: Any, froms: Any,
) -> bool:  # fmt: skip
    """Reads ``count`` rows, whose numbers (int64) are at the address ``rows``, to the buffers' rows
    ``first``, ``first + 1``, and so on. Returns False if `kernel` has to read one of them; what was
    written so far is then overwritten."""
    for row in range(count):
        record = word_at(rows + 8 * row)
        ats[row] = data + offset_at(starts, wide, record) + 2
        ends[row] = data + offset_at(stops, wide, record)
    pc = code
    while True:
        op = word_at(pc)
        if op <= N16:
            # One bounds check for several numbers and ids in a row.
            width = 0
            after = pc
            while word_at(after) <= N16:
                width += wire_width(word_at(after))
                after += STEP
            if not advance(ats, ends, width, count):
                return False
            while pc < after:
                op = word_at(pc)
                to = word_at(base + word_at(pc + TO)) + buffer_width(op) * first
                read_numbers(op, to, ats, width, count)
                width -= wire_width(op)
                pc += STEP
        elif op == TEXT:
            if not read_text(pc, base, sizes, first, ats, ends, froms, count):
                return False
            pc += STEP
        elif op == DONE:
            break
        else:
            if not read_tagged(code, pc, base, first, ats, ends, froms, count):
                return False
            pc = code + word_at(pc + NEXT)
    trailing = 0
    for row in range(count):
        trailing |= ats[row] ^ ends[row]
    return trailing == 0 or exact == 0


@inline
def read_blocks(
    data: int, starts: int, ends: int, wide: int, rows: int, count: int, exact: int, state: int,
    ats: Any, stops: Any, froms: Any,
) -> None:  # fmt: skip
    """Reads the rows of a chunk as `kernel.read_rows` does, up to a block that it leaves to it.
    ``ats``, ``stops`` and ``froms`` are scratch arrays, int64[BLOCK]."""
    number, done = word_at(state + ROWS_SEEN), word_at(state + ROWS_READ)
    code, sizes, base = word_at(state + CODE), word_at(state + CAPACITIES), word_at(state + BASES)
    while number < count:
        size = min(BLOCK, count - number)
        if not read_block(
            code, data, starts, ends, wide, rows + 8 * number, size, exact, base, sizes, done,
            ats, stops, froms,
        ):  # fmt: skip
            break
        into = word_at(base) + 8 * done
        for row in range(size):
            put64(into + 8 * row, word_at(rows + 8 * (number + row)))
        number += size
        done += size
    put64(state + ROWS_SEEN, number)
    put64(state + ROWS_READ, done)
