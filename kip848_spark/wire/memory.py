"""What the kernels are made of: compiling and keeping them, and memory at an address.

A compiled kernel is kept on disk, in a folder named after the source that it was made of. Several
processes may put the same one there. Where nothing can be written, or what was is damaged, it is
compiled in each process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from kip848_spark.runtime import kernel_cache

F = TypeVar("F", bound=Callable[..., Any])

ONE, TWO, THREE, FOUR = (
    0x1F83D9ABFB41BD6B, 0x5BE0CD19137E2179, 0x3C6EF372FE94F82B, 0x510E527FADE682D1,
)  # fmt: skip
"""Odd numbers, to tell the pieces of what is hashed apart."""
AHEAD = 2048
"""Bytes by which what is read is fetched before."""
HIGH_BITS = -0x7F7F7F7F7F7F7F80
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}


def compiled(signature: str) -> Callable[[F], F]:
    """Compiles a kernel, or takes it from the cache."""

    def decorate(function: F) -> F:
        named = numba.config.CACHE_LOCATOR_CLASSES
        try:
            numba.config.CACHE_LOCATOR_CLASSES = (
                f"{kernel_cache.__name__}.{kernel_cache.Locator.__name__}"
            )
            made: F = numba.njit(signature, cache=True, **_OPTIONS)(function)
        except Exception:  # nowhere to write, or a damaged file: it can be done without
            made = numba.njit(signature, **_OPTIONS)(function)
        finally:
            numba.config.CACHE_LOCATOR_CLASSES = named
        return made

    return decorate


def inlined(function: F) -> F:
    """A function that is compiled into those that call it."""
    made: F = numba.njit(no_cpython_wrapper=True, **_OPTIONS)(function)
    return made


# -- memory at an address -------------------------------------------------------------------------


def _get(bits: int, swapped: bool) -> Callable[[int], int]:
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

    made: Callable[[int], int] = get
    return made


def _put(bits: int) -> Callable[[int, int], None]:
    """(address, value): stores the low ``bits`` there."""

    @intrinsic  # type: ignore[untyped-decorator]
    def put(_: Any, address: Any, value: Any) -> Any:
        def codegen(context: Any, builder: Any, __: Any, arguments: Any) -> Any:
            kind = ir.IntType(bits)
            value = builder.trunc(arguments[1], kind) if bits < 64 else arguments[1]
            builder.store(value, builder.inttoptr(arguments[0], kind.as_pointer()), align=1)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), codegen

    made: Callable[[int, int], None] = put
    return made


@intrinsic  # type: ignore[untyped-decorator]
def _mixed(_: Any, one: Any, other: Any) -> Any:
    """int64: both halves of the product of two integers, as one."""

    def codegen(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        wide, word = ir.IntType(128), ir.IntType(64)
        product = builder.mul(*(builder.zext(each, wide) for each in arguments))
        high = builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), word)
        return builder.xor(high, builder.trunc(product, word))

    return types.int64(types.int64, types.int64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def _unlike(_: Any, one: Any, other: Any, second: Any, third: Any, last: Any) -> Any:
    """int64: not zero if the 16 bytes at two addresses differ, or those so many bytes behind."""

    def codegen(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        kind = ir.VectorType(ir.IntType(64), 2)

        def piece(address: Any) -> Any:
            return builder.load(builder.inttoptr(address, kind.as_pointer()), align=1)

        one, other, *more = arguments
        seen = builder.xor(piece(one), piece(other))
        for shift in more:
            unlike = builder.xor(piece(builder.add(one, shift)), piece(builder.add(other, shift)))
            seen = builder.or_(seen, unlike)
        halves = (builder.extract_element(seen, ir.Constant(ir.IntType(32), i)) for i in (0, 1))
        return builder.or_(*halves)

    return types.int64(*[types.int64] * 5), codegen


@intrinsic  # type: ignore[untyped-decorator]
def _prefetch(_: Any, address: Any) -> Any:
    """Has the cache fetch what is there, if it is anything."""

    def codegen(context: Any, builder: Any, __: Any, arguments: Any) -> Any:
        number, pointer = ir.IntType(32), ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", (pointer,), kind)
        how = [ir.Constant(number, value) for value in (0, 3, 1)]  # to read, often, data
        builder.call(function, [builder.inttoptr(arguments[0], pointer), *how])
        return context.get_dummy_value()

    return types.void(types.int64), codegen


mixed: Callable[[int, int], int] = _mixed
prefetch: Callable[[int], None] = _prefetch
unlike: Callable[[int, int, int, int, int], int] = _unlike
int8_at, int16_at = _get(8, False), _get(16, False)
int32_at, word_at = _get(32, False), _get(64, False)
big16, big32, big64 = _get(16, True), _get(32, True), _get(64, True)
put8, put16, put32, put64 = _put(8), _put(16), _put(32), _put(64)


@inlined
def octet(address: int) -> int:
    return int8_at(address) & 0xFF


@inlined
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


@inlined
def same(one: int, other: int, size: int) -> bool:
    """Whether two runs of ``size`` bytes are equal. Most are compared without a loop, as four
    pieces that overlap: how many bytes there are is then no branch to be guessed."""
    if size < 16 or size > 64:
        return same_long(one, other, size)
    last = size - 16
    return unlike(one, other, min(16, last), min(32, last), last) == 0


@inlined
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


@inlined
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


@inlined
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


@inlined
def bound(bounds: int, wide: int, row: int) -> int:
    """Where a row begins or ends: offset ``row`` of 64 bits if ``wide``, else of 32."""
    return word_at(bounds + 8 * row) if wide else int32_at(bounds + 4 * row)


@inlined
def is_there(valid: int, row: int) -> int:
    """Bit ``row`` of a bitmap; 1 without one."""
    return 1 if valid == 0 else (int8_at(valid + (row >> 3)) >> (row & 7)) & 1


@inlined
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
