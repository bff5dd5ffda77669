"""The compiled part of the decoder: distinct keys, rows by layout, and the reading of rows.

`read` runs a program (see `program`) over rows, byte by byte from left to right, and the first
fault of a row is the answer. It is compiled once and kept on disk; layouts are its data. Memory is
given to it as addresses. Every read is compared with the row's end, every write with the room there
is; what has room for all rows is made so from the start.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from kip848_spark.wire.faults import Reason
from kip848_spark.wire.layout import HIGHEST_TAG, LONGEST_STRING
from kip848_spark.wire.program import Form, Op, Word

F = TypeVar("F", bound=Callable[..., Any])

# Plain numbers, as the compiler takes them for constants.
STEP = 8 * len(Word)
FRAME = 8 * 5
GUESSES = 15
N1, N2, U2, N4, N8, N16 = (int(op) for op in (Op.N1, Op.N2, Op.U2, Op.N4, Op.N8, Op.N16))
TEXT, FIXED, LIST, END_LIST = int(Op.TEXT), int(Op.FIXED), int(Op.LIST), int(Op.END_LIST)
TAGS, END_TAG, DONE = int(Op.TAGS), int(Op.END_TAG), int(Op.DONE)
NEXT_TAG = -1
TO, ROW, FORM, NULLABLE = 8 * Word.TO, 8 * Word.ROW, 8 * Word.FORM, 8 * Word.NULLABLE
NULLS, INTO, ROOM, WIDTH = 8 * Word.NULLS, 8 * Word.INTO, 8 * Word.ROOM, 8 * Word.WIDTH
NEXT, LEAST, UTF8 = 8 * Word.NEXT, 8 * Word.LEAST, 8 * Word.UTF8
TAG, LOW, HIGH = 8 * Word.TAG, 8 * Word.LOW, 8 * Word.HIGH
VARINT, INT16, INT32, PRESENCE = int(Form.VARINT), int(Form.INT16), int(Form.INT32), int(
    Form.PRESENCE
)
VARINT_PRESENCE = int(Form.VARINT_PRESENCE)

TRUNCATED, TRAILING_BYTES = int(Reason.TRUNCATED), int(Reason.TRAILING_BYTES)
BAD_LENGTH, BAD_VARINT, BAD_UTF8 = int(Reason.BAD_LENGTH), int(Reason.BAD_VARINT), int(
    Reason.BAD_UTF8
)
NULL_NOT_ALLOWED, BAD_TAG = int(Reason.NULL_NOT_ALLOWED), int(Reason.BAD_TAG)
BAD_PRESENCE = int(Reason.BAD_PRESENCE)
LONGEST, HIGHEST = LONGEST_STRING, HIGHEST_TAG

ONE, TWO, THREE, FOUR = (
    0x1F83D9ABFB41BD6B, 0x5BE0CD19137E2179, 0x3C6EF372FE94F82B, 0x510E527FADE682D1,
)  # fmt: skip
"""Odd numbers, to tell the pieces of what is hashed apart."""
HIGH_BITS = -0x7F7F7F7F7F7F7F80


def compiled(signature: str, inline: bool = False) -> Callable[[F], F]:
    """Compiles a function, or takes it from the cache on disk. Without a place for that, it is
    compiled in each process."""

    def decorate(function: F) -> F:
        options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
        if inline:
            made: F = numba.njit(**options)(function)
            return made
        try:
            made = numba.njit(signature, cache=True, **options)(function)
        except (RuntimeError, OSError):
            made = numba.njit(signature, **options)(function)
        return made

    return decorate


# -- memory at an address -------------------------------------------------------------------------


def _get(bits: int, swapped: bool) -> Any:
    """int64(address): the signed integer of ``bits`` there, aligned or not."""

    @intrinsic  # type: ignore[untyped-decorator]
    def get(_: Any, address: Any) -> Any:
        def codegen(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
            kind = ir.IntType(bits)
            value = builder.load(builder.inttoptr(arguments[0], kind.as_pointer()), align=1)
            if swapped:
                value = builder.bswap(value)
            return builder.sext(value, ir.IntType(64)) if bits < 64 else value

        return types.int64(types.int64), codegen

    return get


def _put(bits: int) -> Any:
    """(address, value): stores the low ``bits`` there."""

    @intrinsic  # type: ignore[untyped-decorator]
    def put(_: Any, address: Any, value: Any) -> Any:
        def codegen(context: Any, builder: Any, __: Any, arguments: Any) -> Any:
            kind = ir.IntType(bits)
            value = builder.trunc(arguments[1], kind) if bits < 64 else arguments[1]
            builder.store(value, builder.inttoptr(arguments[0], kind.as_pointer()), align=1)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), codegen

    return put


@intrinsic  # type: ignore[untyped-decorator]
def mixed(_: Any, one: Any, other: Any) -> Any:
    """int64: both halves of the product of two integers, as one."""

    def codegen(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        wide, word = ir.IntType(128), ir.IntType(64)
        product = builder.mul(*(builder.zext(each, wide) for each in arguments))
        high = builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), word)
        return builder.xor(high, builder.trunc(product, word))

    return types.int64(types.int64, types.int64), codegen


int8_at, int16_at, int32_at, word_at = _get(8, False), _get(16, False), _get(32, False), _get(64, False)
big16, big32, big64 = _get(16, True), _get(32, True), _get(64, True)
put8, put16, put32, put64 = _put(8), _put(16), _put(32), _put(64)


@compiled("", inline=True)
def octet(address: int) -> int:
    return int8_at(address) & 0xFF


@compiled("", inline=True)
def copied(to: int, source: int, size: int) -> int:
    """Copies ``size`` bytes; below zero or with a high bit set if one of them is not ASCII."""
    seen = 0
    if size >= 8:
        last = size - 8
        at = 0
        while at < last:
            word = word_at(source + at)
            put64(to + at, word)
            seen |= word
            at += 8
        word = word_at(source + last)
        put64(to + last, word)
        seen |= word
    elif size >= 4:
        word = int32_at(source)
        put32(to, word)
        seen |= word
        word = int32_at(source + size - 4)
        put32(to + size - 4, word)
        seen |= word
    else:
        for at in range(size):
            word = int8_at(source + at)
            put8(to + at, word)
            seen |= word
    return seen & HIGH_BITS


@compiled("", inline=True)
def same(one: int, other: int, size: int) -> bool:
    """Whether two runs of ``size`` bytes are equal. Most are compared without a loop, as four
    pieces that overlap: how many bytes there are is then no branch to be guessed."""
    if size < 16 or size > 64:
        return same_long(one, other, size)
    last = size - 16
    unlike = word_at(one) ^ word_at(other)
    unlike |= word_at(one + 8) ^ word_at(other + 8)
    at = min(16, last)
    unlike |= word_at(one + at) ^ word_at(other + at)
    unlike |= word_at(one + at + 8) ^ word_at(other + at + 8)
    at = min(32, last)
    unlike |= word_at(one + at) ^ word_at(other + at)
    unlike |= word_at(one + at + 8) ^ word_at(other + at + 8)
    unlike |= word_at(one + last) ^ word_at(other + last)
    unlike |= word_at(one + last + 8) ^ word_at(other + last + 8)
    return unlike == 0


@compiled("", inline=True)
def same_long(one: int, other: int, size: int) -> bool:
    """The same, of any size."""
    at = 0
    while at + 8 <= size:
        if word_at(one + at) != word_at(other + at):
            return False
        at += 8
    while at < size:
        if int8_at(one + at) != int8_at(other + at):
            return False
        at += 1
    return True


@compiled("", inline=True)
def hashed(at: int, size: int, seed: int) -> int:
    """A hash of ``size`` bytes, of most without a loop."""
    if size < 16 or size > 64:
        return hashed_long(at, size, seed)
    last = at + size - 16
    found = mixed(word_at(at) ^ seed, word_at(at + 8) ^ ONE)
    piece = min(at + 16, last)
    found += mixed(word_at(piece) ^ TWO, word_at(piece + 8) ^ seed)
    piece = min(at + 32, last)
    found += mixed(word_at(piece) ^ seed, word_at(piece + 8) ^ THREE)
    found += mixed(word_at(last) ^ FOUR, word_at(last + 8) ^ seed)
    return mixed(found ^ size, seed)


@compiled("", inline=True)
def hashed_long(source: int, size: int, seed: int) -> int:
    """The same, of any size."""
    found = seed ^ size
    at = 0
    while at + 8 <= size:
        found = mixed(found ^ word_at(source + at), seed ^ ONE)
        at += 8
    while at < size:
        found = mixed(found ^ octet(source + at), seed ^ TWO)
        at += 1
    return mixed(found, seed ^ FOUR)


@compiled("", inline=True)
def bound(bounds: int, wide: int, row: int) -> int:
    """Where a row begins or ends: offset ``row`` of 64 bits if ``wide``, else of 32."""
    return word_at(bounds + 8 * row) if wide else int32_at(bounds + 4 * row)


@compiled("", inline=True)
def is_there(valid: int, row: int) -> int:
    """Bit ``row`` of a bitmap; 1 without one."""
    return 1 if valid == 0 else (int8_at(valid + (row >> 3)) >> (row & 7)) & 1


@compiled("", inline=True)
def is_utf8(at: int, size: int) -> bool:
    """Whether bytes are strictly UTF-8: no overlong forms, no surrogates, nothing beyond
    U+10FFFF."""
    end = at + size
    while at < end:
        first = octet(at)
        if first < 0x80:
            at += 1
            continue
        if first < 0xC2 or first > 0xF4:
            return False
        more = 1 if first < 0xE0 else 2 if first < 0xF0 else 3
        if at + more >= end:
            return False
        low, high = 0x80, 0xBF
        if first == 0xE0:
            low = 0xA0
        elif first == 0xED:
            high = 0x9F
        elif first == 0xF0:
            low = 0x90
        elif first == 0xF4:
            high = 0x8F
        second = octet(at + 1)
        if second < low or second > high:
            return False
        for index in range(2, more + 1):
            if octet(at + index) & 0xC0 != 0x80:
                return False
        at += more + 1
    return True


# -- distinct keys --------------------------------------------------------------------------------


@compiled(
    "int64(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64,"
    " int64)"
)
def distinct(
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


# -- rows by layout -------------------------------------------------------------------------------


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


# -- the reading of rows --------------------------------------------------------------------------


@compiled("", inline=True)
def varint(at: int, end: int) -> tuple[int, int, int]:
    """Value of an unsigned varint, where it ends, and what is wrong with it."""
    if at < end:
        byte = octet(at)
        if byte < 0x80:
            return byte, at + 1, 0
    return long_varint(at, end)


@compiled("", inline=True)
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


@compiled("", inline=True)
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


@compiled("", inline=True)
def stop(need: int, number: int, good: int, size: int) -> None:
    """Notes where reading stopped, and for want of what."""
    put64(need, number)
    put64(need + 8, good)
    put64(need + 16, size)


@compiled(
    "int64(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64,"
    " int64, int64, int64, int64, int64, int64)"
)
def read(
    code: int,
    data: int,
    starts: int,
    ends: int,
    wide: int,
    rows: int,
    count: int,
    whole: int,
    base: int,
    room: int,
    row: int,
    stack: int,
    begun: int,
    begun_count: int,
    reason: int,
    reason_at: int,
    tags: int,
    need: int,
) -> int:
    """Reads ``count`` rows, whose numbers are at ``rows``. ``need`` is int64[3]: how many rows were
    looked at, and how many of them read without a fault, whose numbers come first at ``rows`` now.
    Returns -1 if all were read. Else it is the room of which the next row needs more, ``need[2]``;
    the same call goes on with that row.

    At ``code`` there is the program, at ``base`` the addresses of the buffers, at ``room`` the
    sizes of what may grow, at ``row`` a place for the row of each table, at ``stack`` five for each
    level of arrays and tags, and at ``begun`` which of the buffers are offsets. With ``whole``, bytes behind the last field are a fault.
    """
    number, good = word_at(need), word_at(need + 8)
    if number == 0:
        for index in range(begun_count):
            put32(word_at(base + word_at(begun + 8 * index)), 0)
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
                if op == N8:
                    if end - at < 8:
                        fault = TRUNCATED
                        break
                    put64(to + 8 * line, big64(at))
                    at += 8
                elif op == N4:
                    if end - at < 4:
                        fault = TRUNCATED
                        break
                    put32(to + 4 * line, big32(at))
                    at += 4
                elif op == N16:
                    if end - at < 16:
                        fault = TRUNCATED
                        break
                    put64(to + 16 * line, word_at(at))
                    put64(to + 16 * line + 8, word_at(at + 8))
                    at += 16
                elif op == N1:
                    if at >= end:
                        fault = TRUNCATED
                        break
                    put8(to + line, int8_at(at))
                    at += 1
                else:
                    if end - at < 2:
                        fault = TRUNCATED
                        break
                    if op == N2:
                        put16(to + 2 * line, big16(at))
                    else:
                        put32(to + 4 * line, big16(at) & 0xFFFF)
                    at += 2
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
                        stop(need, number, good, before + size)
                        return word_at(pc + ROOM) >> 3
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
                        stop(need, number, good, before + size)
                        return word_at(pc + ROOM) >> 3
                    into = word_at(base + word_at(pc + INTO))
                    if width == 4:
                        for index in range(size):
                            put32(into + 4 * (before + index), big32(at + 4 * index))
                    else:
                        kind = word_at(pc + LEAST)
                        for index in range(before, before + size):
                            if kind == N8:
                                put64(into + 8 * index, big64(at))
                            elif kind == N16:
                                put64(into + 16 * index, word_at(at))
                                put64(into + 16 * index + 8, word_at(at + 8))
                            elif kind == N2:
                                put16(into + 2 * index, big16(at))
                            elif kind == U2:
                                put32(into + 4 * index, big16(at) & 0xFFFF)
                            else:
                                put8(into + index, int8_at(at))
                            at += width
                        at -= size * width
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
                        stop(need, number, good, most)
                        return word_at(pc + ROOM) >> 3
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
                    elif width == 16:
                        put64(to + 16 * line, word_at(entry + LOW))
                        put64(to + 16 * line + 8, word_at(entry + HIGH))
                    elif width == 8:
                        put64(to + 8 * line, word_at(entry + LOW))
                    elif width == 4:
                        put32(to + 4 * line, word_at(entry + LOW))
                    elif width == 2:
                        put16(to + 2 * line, word_at(entry + LOW))
                    else:
                        put8(to + line, word_at(entry + LOW))
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
                        stop(need, number, good, before + 1)
                        return word_at(entry + ROOM) >> 3
                    put64(row + word_at(entry + INTO), before)
                pc = code + word_at(entry + NEXT)
        number += 1
        if fault != 0:
            put8(reason + record, fault)
            put64(reason_at + 8 * record, where - begin)
        else:
            if unknown:
                put32(tags + 4 * record, unknown)
            put64(rows + 8 * good, record)
            good += 1
    stop(need, number, good, 0)
    return -1
