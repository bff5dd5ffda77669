"""The kernel that reads messages: runs a program (see `program`) over rows.

Each row is read byte by byte from left to right, and its first fault is the answer. The kernel is
compiled once, and layouts are its data. Memory is given to it as addresses: every read is compared
with the row's end, every write with the room there is; what has a value for each row has room for
all of them from the start.
"""

from __future__ import annotations

from kip848_spark.wire.faults import Reason
from kip848_spark.wire.layout import HIGHEST_TAG, LONGEST_STRING
from kip848_spark.wire.memory import (
    big16,
    big32,
    big64,
    bound,
    copied,
    inlined,
    int8_at,
    int32_at,
    is_utf8,
    octet,
    put8,
    put16,
    put32,
    put64,
    word_at,
)
from kip848_spark.wire.program import Form, Op, State, Word

# Plain numbers, as the compiler takes them for constants.
STEP = 8 * len(Word)
FRAME = 8 * 5
N1, N2, U2, N4, N8, N16 = (int(op) for op in (Op.N1, Op.N2, Op.U2, Op.N4, Op.N8, Op.N16))
TEXT, FIXED, LIST, END_LIST = int(Op.TEXT), int(Op.FIXED), int(Op.LIST), int(Op.END_LIST)
TAGS, END_TAG, DONE = int(Op.TAGS), int(Op.END_TAG), int(Op.DONE)
NEXT_TAG = -1
TO, ROW, FORM, NULLABLE = 8 * Word.TO, 8 * Word.ROW, 8 * Word.FORM, 8 * Word.NULLABLE
NULLS, INTO, ROOM, WIDTH = 8 * Word.NULLS, 8 * Word.INTO, 8 * Word.ROOM, 8 * Word.WIDTH
NEXT, LEAST, UTF8 = 8 * Word.NEXT, 8 * Word.LEAST, 8 * Word.UTF8
TAG, LOW = 8 * Word.TAG, 8 * Word.LOW
LOOKED_AT, GOOD, NEEDED = 8 * State.LOOKED_AT, 8 * State.GOOD, 8 * State.NEEDED
ROOM_OF, ROOMS = 8 * State.ROOM, 8 * State.ROOMS
CODE, PLAIN = 8 * State.CODE, 8 * State.PLAIN
BASES, TABLES, STACK = 8 * State.BASES, 8 * State.TABLES, 8 * State.STACK
VARINT, INT16, INT32 = int(Form.VARINT), int(Form.INT16), int(Form.INT32)
PRESENCE = int(Form.PRESENCE)

TRUNCATED, TRAILING_BYTES = int(Reason.TRUNCATED), int(Reason.TRAILING_BYTES)
BAD_LENGTH, BAD_VARINT = int(Reason.BAD_LENGTH), int(Reason.BAD_VARINT)
BAD_UTF8 = int(Reason.BAD_UTF8)
NULL_NOT_ALLOWED, BAD_TAG = int(Reason.NULL_NOT_ALLOWED), int(Reason.BAD_TAG)
BAD_PRESENCE = int(Reason.BAD_PRESENCE)
LONGEST, HIGHEST = LONGEST_STRING, HIGHEST_TAG


@inlined
def varint(at: int, end: int) -> tuple[int, int, int]:
    """Value of an unsigned varint, where it ends, and what is wrong with it."""
    if at < end:
        byte = octet(at)
        if byte < 0x80:
            return byte, at + 1, 0
    return long_varint(at, end)


@inlined
def long_varint(at: int, end: int) -> tuple[int, int, int]:
    """The same, of any length."""
    value = 0
    for shift in range(0, 35, 7):
        if at >= end:
            return 0, at, TRUNCATED
        byte = octet(at)
        at += 1
        if shift == 28 and byte > 15:
            return 0, at, BAD_VARINT
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
    return value, at, 0


@inlined
def length(at: int, end: int, form: int) -> tuple[int, int, int]:
    """A length, count or presence (-1 for null), where it ends, and what is wrong with it."""
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


@inlined
def octets_of(op: int) -> int:
    """The bytes of a number or an id."""
    return 8 if op == N8 else 4 if op == N4 else 16 if op == N16 else 1 if op == N1 else 2


@inlined
def width_of(op: int) -> int:
    """The bytes that it has in a buffer."""
    return 4 if op == U2 else octets_of(op)


@inlined
def put_number(op: int, to: int, at: int) -> None:
    """Puts the number or id that is at ``at``."""
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


@inlined
def stop(state: int, number: int, good: int, room: int, needed: int) -> bool:
    """Notes where reading stopped, and for want of what."""
    put64(state + LOOKED_AT, number)
    put64(state + GOOD, good)
    put64(state + ROOM_OF, room >> 3)
    put64(state + NEEDED, needed)
    return False


@inlined
def read(  # noqa: PLR0912, PLR0915 - one loop, where a call for each field would cost
    data: int, starts: int, ends: int, wide: int, rows: int, count: int, whole: int, reason: int,
    reason_at: int, tags: int, state: int,
) -> bool:  # fmt: skip
    """Reads the first ``count`` rows of a chunk, whose numbers are at ``rows``, from the first that
    was not looked at; whether there was room for them. If not, it can go on with the same row.

    With ``whole``, bytes behind the last field are a fault.
    """
    number, good = word_at(state + LOOKED_AT), word_at(state + GOOD)
    code, room, base = word_at(state + CODE), word_at(state + ROOMS), word_at(state + BASES)
    row, stack = word_at(state + TABLES), word_at(state + STACK)
    while number < count:
        record = word_at(rows + 8 * number)
        begin = data + bound(starts, wide, record)
        end = data + bound(ends, wide, record)
        at = begin + 2
        put64(row, good)
        pc = code
        top = stack
        unknown = 0
        fault = 0
        where = at
        while True:
            op = word_at(pc)
            if op <= N16:
                line = word_at(row + word_at(pc + ROW))
                to = word_at(base + word_at(pc + TO))
                where = at
                octets = octets_of(op)
                if octets > end - at:
                    fault = TRUNCATED
                    break
                put_number(op, to + width_of(op) * line, at)
                at += octets
                pc += STEP
            elif op <= LIST:
                where = at
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
                    if before + size > word_at(room + word_at(pc + ROOM)):
                        return stop(state, number, good, word_at(pc + ROOM), before + size)
                    if size:
                        into = word_at(base + word_at(pc + INTO)) + before
                        beyond = copied(into, at, size)
                        if utf8 and beyond and not is_utf8(at, size):
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
                        where = at + (end - at) // width * width
                        fault = TRUNCATED
                        break
                    if before + size > word_at(room + word_at(pc + ROOM)):
                        return stop(state, number, good, word_at(pc + ROOM), before + size)
                    into = word_at(base + word_at(pc + INTO))
                    if width == 4:
                        for index in range(size):
                            put32(into + 4 * (before + index), big32(at + 4 * index))
                    else:
                        kind = word_at(pc + LEAST)
                        for index in range(size):
                            to = into + width_of(kind) * (before + index)
                            put_number(kind, to, at + width * index)
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
                    # No more than these can be read, whatever is claimed.
                    most = before + min(size, left // word_at(pc + LEAST) + 1)
                    if most > word_at(room + word_at(pc + ROOM)):
                        return stop(state, number, good, word_at(pc + ROOM), most)
                    put64(row + word_at(pc + INTO), before)
                    put64(top, size)
                    top += FRAME
                    pc += STEP
            elif op == END_LIST:
                # NEXT is the list itself
                head = code + word_at(pc + NEXT)
                left = word_at(top - FRAME) - 1
                if left > 0:
                    put64(top - FRAME, left)
                    table = row + word_at(head + INTO)
                    put64(table, word_at(table) + 1)
                    pc = head + STEP
                else:
                    top -= FRAME
                    pc = code + word_at(head + NEXT)
            elif op == TAGS:
                where = at
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
                        put_number(op, to + width * line, entry + LOW)
                if left == 0:
                    pc = code + word_at(pc + NEXT)
                    continue
                before = -1
                top += FRAME
                put64(top - FRAME + 32, pc)
                op = NEXT_TAG
            elif op == DONE:
                where = at
                if whole and at != end:
                    fault = TRAILING_BYTES
                break
            else:  # END_TAG
                where = word_at(top - FRAME + 24)
                if at != end:
                    fault = BAD_TAG
                    break
                left = word_at(top - FRAME) - 1
                before = word_at(top - FRAME + 8)
                end = word_at(top - FRAME + 16)
                pc = word_at(top - FRAME + 32)
                op = NEXT_TAG
            # the next tag that the layout knows
            if op == NEXT_TAG:
                found = False
                while left > 0:
                    where = at
                    tag, at, fault = varint(at, end)
                    if fault != 0:
                        break
                    if tag <= before or tag > HIGHEST:
                        fault = BAD_TAG
                        break
                    before = tag
                    start = where
                    where = at
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
                            found = True
                            break
                    if found:
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
                if not found:
                    top -= FRAME
                    pc = code + word_at(pc + NEXT)
                    continue
                if word_at(entry + WIDTH) == 0:
                    line = word_at(row + word_at(entry + ROW))
                    to = word_at(base + word_at(entry + TO)) + 4 * line
                    before = int32_at(to)
                    put32(to + 4, before + 1)
                    if before + 1 > word_at(room + word_at(entry + ROOM)):
                        return stop(state, number, good, word_at(entry + ROOM), before + 1)
                    put64(row + word_at(entry + INTO), before)
                pc = code + word_at(entry + NEXT)
        number += 1
        if fault != 0:
            put8(reason + record, fault)
            put64(reason_at + 8 * record, where - begin)
        else:
            if unknown:
                put32(tags + 4 * record, unknown)
            put64(word_at(base) + 8 * good, record)
            good += 1
    put64(state + LOOKED_AT, number)
    put64(state + GOOD, good)
    return True
