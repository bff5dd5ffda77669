"""The kernel that reads messages one after another: it executes a program (see `program`) for each.

A row is read from left to right up to its first fault. The kernel is compiled once: a layout is its
input, not its code. It works on memory addresses. Before each read it checks that the row has so
many bytes left, and before each write of variable size that the buffer's capacity suffices. Buffers
with one value a row hold all rows of the batch from the start.
"""

from __future__ import annotations

from kip848_spark.wire.faults import Reason
from kip848_spark.wire.layout import HIGHEST_TAG, LONGEST_STRING
from kip848_spark.wire.memory import (
    big16,
    big32,
    big64,
    copy_bytes,
    inline,
    int8_at,
    int32_at,
    is_utf8,
    offset_at,
    put8,
    put16,
    put32,
    put64,
    uint8_at,
    word_at,
)
from kip848_spark.wire.program import Form, Op, OpWord, StateWord

# Plain integers, which Numba treats as compile-time constants.
STEP = 8 * len(OpWord)
FRAME = 8 * 5
N1, N2, U2, N4, N8, N16 = (int(op) for op in (Op.N1, Op.N2, Op.U2, Op.N4, Op.N8, Op.N16))
TEXT, FIXED, LIST, END_LIST = int(Op.TEXT), int(Op.FIXED), int(Op.LIST), int(Op.END_LIST)
TAGS, END_TAG, DONE = int(Op.TAGS), int(Op.END_TAG), int(Op.DONE)
NEXT_TAG = -1
TO, ROW, FORM, NULLABLE = 8 * OpWord.TO, 8 * OpWord.ROW, 8 * OpWord.FORM, 8 * OpWord.NULLABLE
NULLS, INTO, CAPACITY, WIDTH = (
    8 * OpWord.NULLS,
    8 * OpWord.INTO,
    8 * OpWord.CAPACITY,
    8 * OpWord.WIDTH,
)
NEXT, MIN_BYTES, UTF8 = 8 * OpWord.NEXT, 8 * OpWord.MIN_BYTES, 8 * OpWord.UTF8
TAG, LOW = 8 * OpWord.TAG, 8 * OpWord.LOW
ROWS_SEEN, ROWS_READ, NEEDED = (
    8 * StateWord.ROWS_SEEN,
    8 * StateWord.ROWS_READ,
    8 * StateWord.NEEDED,
)
EXHAUSTED, CAPACITIES = 8 * StateWord.EXHAUSTED, 8 * StateWord.CAPACITIES
CODE, PLAIN = 8 * StateWord.CODE, 8 * StateWord.PLAIN
BASES, TABLES, STACK = 8 * StateWord.BASES, 8 * StateWord.TABLES, 8 * StateWord.STACK
VARINT, INT16, INT32 = int(Form.VARINT), int(Form.INT16), int(Form.INT32)
PRESENCE = int(Form.PRESENCE)

TRUNCATED, TRAILING_BYTES = int(Reason.TRUNCATED), int(Reason.TRAILING_BYTES)
BAD_LENGTH, BAD_VARINT = int(Reason.BAD_LENGTH), int(Reason.BAD_VARINT)
BAD_UTF8 = int(Reason.BAD_UTF8)
NULL_NOT_ALLOWED, BAD_TAG = int(Reason.NULL_NOT_ALLOWED), int(Reason.BAD_TAG)
BAD_PRESENCE = int(Reason.BAD_PRESENCE)
LONGEST, HIGHEST = LONGEST_STRING, HIGHEST_TAG


@inline
def varint(at: int, end: int) -> tuple[int, int, int]:
    """An unsigned varint: its value, the address after it, and a `Reason` (0 for none)."""
    if at < end:
        byte = uint8_at(at)
        if byte < 0x80:
            return byte, at + 1, 0
    return long_varint(at, end)


@inline
def long_varint(at: int, end: int) -> tuple[int, int, int]:
    """`varint` for any length."""
    value = 0
    for shift in range(0, 35, 7):
        if at >= end:
            return 0, at, TRUNCATED
        byte = uint8_at(at)
        at += 1
        if shift == 28 and byte > 15:
            return 0, at, BAD_VARINT
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
    return value, at, 0


@inline
def length(at: int, end: int, form: int) -> tuple[int, int, int]:
    """A length, count or presence in a `Form`: its value (-1 for null), the address after it, and a
    `Reason` (0 for none)."""
    if form == VARINT:
        value, at, fault = varint(at, end)
        return value - 1, at, fault
    if form == INT16:
        if end - at < 2:
            return 0, at, TRUNCATED
        return big16(at), at + 2, 0
    if form == INT32:
        if end - at < 4:
            return 0, at, TRUNCATED
        return big32(at), at + 4, 0
    if form == PRESENCE:
        if at >= end:
            return 0, at, TRUNCATED
        value, at, fault = int8_at(at), at + 1, 0
    else:
        value, at, fault = varint(at, end)
        value = -1 if value == 0 else value if value == 1 else 2
    if fault == 0 and value not in (1, -1):
        fault = BAD_PRESENCE
    return value, at, fault


@inline
def wire_width(op: int) -> int:
    """The bytes that a number or an id takes in a message."""
    return 8 if op == N8 else 4 if op == N4 else 16 if op == N16 else 1 if op == N1 else 2


@inline
def buffer_width(op: int) -> int:
    """The bytes that it takes in an Arrow buffer."""
    return 4 if op == U2 else wire_width(op)


@inline
def copy_number(op: int, to: int, at: int) -> None:
    """Copies the big-endian number, or the id, at ``at`` to a buffer."""
    if op == N8:
        put64(to, big64(at))
    elif op == N4:
        put32(to, big32(at))
    elif op == N16:
        put64(to, word_at(at))
        put64(to + 8, word_at(at + 8))
    elif op == N1:
        put8(to, int8_at(at))
    elif op == N2:
        put16(to, big16(at))
    else:
        put32(to, big16(at) & 0xFFFF)


@inline
def suspend(state: int, number: int, done: int, capacity: int, needed: int) -> bool:
    """Saves the progress, and which capacity has to grow before reading can be resumed."""
    put64(state + ROWS_SEEN, number)
    put64(state + ROWS_READ, done)
    put64(state + EXHAUSTED, capacity >> 3)
    put64(state + NEEDED, needed)
    return False


@inline
def read_rows(  # noqa: PLR0912, PLR0915 - one loop, as calls for each field would cost time
    data: int, starts: int, ends: int, wide: int, rows: int, count: int, exact: int, reason: int,
    reason_at: int, tags: int, state: int,
) -> bool:  # fmt: skip
    """Reads the rows of a chunk from `StateWord.ROWS_SEEN` up to ``count``; their numbers (int64)
    are at the address ``rows``.

    Returns False if a capacity was too small. When that has grown, a call with the same arguments
    resumes with the row that did not fit. With ``exact``, bytes after the last field are
    a fault. ``reason`` (uint8), ``reason_at`` (int64) and ``tags`` (int32) are the addresses of
    arrays with a value for each row of the batch: see `faults.Faults`.
    """
    number, done = word_at(state + ROWS_SEEN), word_at(state + ROWS_READ)
    code, sizes, base = word_at(state + CODE), word_at(state + CAPACITIES), word_at(state + BASES)
    row, stack = word_at(state + TABLES), word_at(state + STACK)
    while number < count:
        record = word_at(rows + 8 * number)
        begin = data + offset_at(starts, wide, record)
        end = data + offset_at(ends, wide, record)
        at = begin + 2
        put64(row, done)
        pc = code
        top = stack
        unknown = 0
        fault = 0
        fault_at = at
        while True:
            op = word_at(pc)
            if op <= N16:
                line = word_at(row + word_at(pc + ROW))
                to = word_at(base + word_at(pc + TO))
                fault_at = at
                width = wire_width(op)
                if width > end - at:
                    fault = TRUNCATED
                    break
                copy_number(op, to + buffer_width(op) * line, at)
                at += width
                pc += STEP
            elif op <= LIST:
                fault_at = at
                size, at, fault = length(at, end, word_at(pc + FORM))
                if fault != 0:
                    break
                line = word_at(row + word_at(pc + ROW))
                nulls = word_at(pc + NULLS)
                if nulls >= 0:
                    put8(word_at(base + nulls) + line, 1 if size == -1 else 0)
                if size < 0:
                    if size < -1:
                        fault = BAD_LENGTH
                        break
                    if not word_at(pc + NULLABLE):
                        fault = NULL_NOT_ALLOWED
                        break
                    size = 0
                to = word_at(base + word_at(pc + TO)) + 4 * line
                before = int32_at(to)
                put32(to + 4, before + size)
                if op == TEXT:
                    utf8 = word_at(pc + UTF8)
                    if size > end - at or (utf8 and size > LONGEST):
                        fault = BAD_LENGTH
                        break
                    if before + size > word_at(sizes + word_at(pc + CAPACITY)):
                        return suspend(state, number, done, word_at(pc + CAPACITY), before + size)
                    if size:
                        into = word_at(base + word_at(pc + INTO)) + before
                        not_ascii = copy_bytes(into, at, size)
                        if utf8 and not_ascii and not is_utf8(at, size):
                            fault = BAD_UTF8
                            break
                        at += size
                    pc += STEP
                elif op == FIXED:
                    if size > end - at:
                        fault = BAD_LENGTH
                        break
                    width = word_at(pc + WIDTH)
                    if size * width > end - at:
                        fault_at = at + (end - at) // width * width
                        fault = TRUNCATED
                        break
                    if before + size > word_at(sizes + word_at(pc + CAPACITY)):
                        return suspend(state, number, done, word_at(pc + CAPACITY), before + size)
                    into = word_at(base + word_at(pc + INTO))
                    if width == 4:
                        for index in range(size):
                            put32(into + 4 * (before + index), big32(at + 4 * index))
                    else:
                        kind = word_at(pc + MIN_BYTES)
                        for index in range(size):
                            to = into + buffer_width(kind) * (before + index)
                            copy_number(kind, to, at + width * index)
                    at += size * width
                    pc += STEP
                else:
                    left = end - at
                    if size > left and word_at(pc + FORM) <= INT32:
                        fault = BAD_LENGTH
                        break
                    if size == 0:
                        pc = code + word_at(pc + NEXT)
                        continue
                    # The bytes left hold no more elements than this, whatever the count claims.
                    needed = before + min(size, left // word_at(pc + MIN_BYTES) + 1)
                    if needed > word_at(sizes + word_at(pc + CAPACITY)):
                        return suspend(state, number, done, word_at(pc + CAPACITY), needed)
                    put64(row + word_at(pc + INTO), before)
                    put64(top, size)
                    top += FRAME
                    pc += STEP
            elif op == END_LIST:
                # NEXT is the LIST operation
                start_op = code + word_at(pc + NEXT)
                left = word_at(top - FRAME) - 1
                if left > 0:
                    put64(top - FRAME, left)
                    table = row + word_at(start_op + INTO)
                    put64(table, word_at(table) + 1)
                    pc = start_op + STEP
                else:
                    top -= FRAME
                    pc = code + word_at(start_op + NEXT)
            elif op == TAGS:
                fault_at = at
                left, at, fault = varint(at, end)
                if fault != 0:
                    break
                if 2 * left > end - at:
                    fault = BAD_LENGTH
                    break
                line = word_at(row + word_at(pc + ROW))
                known = word_at(pc + WIDTH)
                for index in range(1, known + 1):
                    entry = pc + index * STEP
                    to = word_at(base + word_at(entry + TO))
                    width = word_at(entry + WIDTH)
                    if width == 0:
                        put32(to + 4 * line + 4, int32_at(to + 4 * line))
                    else:
                        op = word_at(code + word_at(entry + NEXT))
                        copy_number(op, to + width * line, entry + LOW)
                if left == 0:
                    pc = code + word_at(pc + NEXT)
                    continue
                before = -1
                top += FRAME
                put64(top - FRAME + 32, pc)
                op = NEXT_TAG
            elif op == DONE:
                fault_at = at
                if exact and at != end:
                    fault = TRAILING_BYTES
                break
            else:  # END_TAG
                fault_at = word_at(top - FRAME + 24)
                if at != end:
                    fault = BAD_TAG
                    break
                left = word_at(top - FRAME) - 1
                before = word_at(top - FRAME + 8)
                end = word_at(top - FRAME + 16)
                pc = word_at(top - FRAME + 32)
                op = NEXT_TAG
            # Skip to the next tag that the layout knows.
            if op == NEXT_TAG:
                is_known = False
                while left > 0:
                    fault_at = at
                    tag, at, fault = varint(at, end)
                    if fault != 0:
                        break
                    if tag <= before or tag > HIGHEST:
                        fault = BAD_TAG
                        break
                    before = tag
                    start = fault_at
                    fault_at = at
                    size, at, fault = varint(at, end)
                    if fault != 0:
                        break
                    if size > end - at:
                        fault = BAD_LENGTH
                        break
                    known = word_at(pc + WIDTH)
                    for index in range(1, known + 1):
                        entry = pc + index * STEP
                        if word_at(entry + TAG) == tag:
                            is_known = True
                            break
                    if is_known:
                        put64(top - FRAME, left)
                        put64(top - FRAME + 8, tag)
                        put64(top - FRAME + 16, end)
                        put64(top - FRAME + 24, start)
                        end = at + size
                        break
                    unknown += 1
                    at += size
                    left -= 1
                if fault != 0:
                    break
                if not is_known:
                    top -= FRAME
                    pc = code + word_at(pc + NEXT)
                    continue
                if word_at(entry + WIDTH) == 0:
                    line = word_at(row + word_at(entry + ROW))
                    to = word_at(base + word_at(entry + TO)) + 4 * line
                    before = int32_at(to)
                    put32(to + 4, before + 1)
                    if before + 1 > word_at(sizes + word_at(entry + CAPACITY)):
                        return suspend(state, number, done, word_at(entry + CAPACITY), before + 1)
                    put64(row + word_at(entry + INTO), before)
                pc = code + word_at(entry + NEXT)
        number += 1
        if fault != 0:
            put8(reason + record, fault)
            put64(reason_at + 8 * record, fault_at - begin)
        else:
            if unknown:
                put32(tags + 4 * record, unknown)
            put64(word_at(base) + 8 * done, record)
            done += 1
    put64(state + ROWS_SEEN, number)
    put64(state + ROWS_READ, done)
    return True
