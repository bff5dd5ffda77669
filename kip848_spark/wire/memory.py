"""The building blocks of the kernels: compilation, and reads and writes at a memory address.

Numba compiles a kernel when its module is first imported, and caches the machine code on disk, in
a folder named after a digest of the kernels' source (`runtime/kernel_cache.py`). Several processes
may write the same file at once. Without a usable cache every process compiles the kernels itself.

All functions here work on addresses and check no bounds: their callers do.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

import numba
from llvmlite import ir
from numba import types
from numba.core.errors import NumbaError
from numba.extending import intrinsic

from kip848_spark.runtime import kernel_cache

F = TypeVar("F", bound=Callable[..., Any])

LOG = logging.getLogger(__name__)

HASH_1, HASH_2, HASH_3, HASH_4 = (
    0x1F83D9ABFB41BD6B, 0x5BE0CD19137E2179, 0x3C6EF372FE94F82B, 0x510E527FADE682D1,
)  # fmt: skip
"""Odd constants: each part of a hashed string is combined with another one."""
PREFETCH_DISTANCE = 2048
"""Data is prefetched this many bytes before it is read."""
HIGH_BITS = -0x7F7F7F7F7F7F7F80
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}


def compile_kernel(signature: str) -> Callable[[F], F]:
    """A decorator that compiles a function for ``signature``, or loads its machine code from the
    cache.

    Raises NumbaError if the function does not compile. A cache that cannot be read or written is
    no error: the function is compiled without it, and the log says so once a process.
    """

    def decorate(function: F) -> F:
        classes = numba.config.CACHE_LOCATOR_CLASSES
        kernel: F
        try:
            numba.config.CACHE_LOCATOR_CLASSES = (
                f"{kernel_cache.__name__}.{kernel_cache.KernelCacheLocator.__name__}"
            )
            kernel = numba.njit(signature, cache=True, **_OPTIONS)(function)
        except NumbaError:  # the kernel is wrong, not the cache
            raise
        except Exception as fault:  # OSError, or whatever unpickling a damaged file raises
            # If the fault is the kernel's after all, compiling it again raises it again.
            kernel = numba.njit(signature, **_OPTIONS)(function)
            _log_unusable_cache(fault)
        finally:
            numba.config.CACHE_LOCATOR_CLASSES = classes
        return kernel

    return decorate


def _log_unusable_cache(fault: Exception) -> None:
    """Logs a warning, once a process: all kernels share the cache."""
    if not _LOGGED:
        _LOGGED.append(fault)
        LOG.warning(
            "The cache of compiled kernels cannot be used (%s: %s). This process compiles its "
            "kernels itself, which takes some seconds. KIP848_CACHE names another cache folder.",
            type(fault).__name__,
            fault,
        )


_LOGGED: list[Exception] = []


def inline(function: F) -> F:
    """A decorator for functions that are compiled into the kernels that call them."""
    compiled: F = numba.njit(no_cpython_wrapper=True, **_OPTIONS)(function)
    return compiled


# -- memory at an address -------------------------------------------------------------------------


def _get(bits: int, swapped: bool) -> Callable[[int], int]:
    """A function int64(address): reads the signed integer of ``bits`` bits at an address, which
    need not be aligned. ``swapped``: it is stored in big-endian byte order."""

    @intrinsic  # type: ignore[untyped-decorator]
    def get(_: Any, address: Any) -> Any:
        def codegen(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
            kind = ir.IntType(bits)
            value = builder.load(builder.inttoptr(arguments[0], kind.as_pointer()), align=1)
            if swapped:
                value = builder.bswap(value)
            return builder.sext(value, ir.IntType(64)) if bits < 64 else value

        return types.int64(types.int64), codegen

    typed: Callable[[int], int] = get
    return typed


def _put(bits: int) -> Callable[[int, int], None]:
    """A function (address, value): stores the low ``bits`` bits of a value at an address."""

    @intrinsic  # type: ignore[untyped-decorator]
    def put(_: Any, address: Any, value: Any) -> Any:
        def codegen(context: Any, builder: Any, __: Any, arguments: Any) -> Any:
            kind = ir.IntType(bits)
            value = builder.trunc(arguments[1], kind) if bits < 64 else arguments[1]
            builder.store(value, builder.inttoptr(arguments[0], kind.as_pointer()), align=1)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), codegen

    typed: Callable[[int, int], None] = put
    return typed


@intrinsic  # type: ignore[untyped-decorator]
def _mix(_: Any, one: Any, other: Any) -> Any:
    """int64: the XOR of the two halves of the 128-bit product of two integers."""

    def codegen(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        wide, word = ir.IntType(128), ir.IntType(64)
        product = builder.mul(*(builder.zext(each, wide) for each in arguments))
        high = builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), word)
        return builder.xor(high, builder.trunc(product, word))

    return types.int64(types.int64, types.int64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def _differing_bits(_: Any, one: Any, other: Any, second: Any, third: Any, last: Any) -> Any:
    """int64: zero if the 16 bytes at two addresses are equal, and so are those at each of the
    offsets ``second``, ``third`` and ``last`` from them; not zero otherwise."""

    def codegen(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        kind = ir.VectorType(ir.IntType(64), 2)

        def load(address: Any) -> Any:
            return builder.load(builder.inttoptr(address, kind.as_pointer()), align=1)

        one, other, *more = arguments
        bits = builder.xor(load(one), load(other))
        for shift in more:
            next_bits = builder.xor(load(builder.add(one, shift)), load(builder.add(other, shift)))
            bits = builder.or_(bits, next_bits)
        halves = (builder.extract_element(bits, ir.Constant(ir.IntType(32), i)) for i in (0, 1))
        return builder.or_(*halves)

    return types.int64(*[types.int64] * 5), codegen


@intrinsic  # type: ignore[untyped-decorator]
def _prefetch(_: Any, address: Any) -> Any:
    """Prefetches the cache line at an address. An address that is not mapped does no harm."""

    def codegen(context: Any, builder: Any, __: Any, arguments: Any) -> Any:
        number, pointer = ir.IntType(32), ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", (pointer,), kind)
        how = [ir.Constant(number, value) for value in (0, 3, 1)]  # read, high locality, data
        builder.call(function, [builder.inttoptr(arguments[0], pointer), *how])
        return context.get_dummy_value()

    return types.void(types.int64), codegen


mix: Callable[[int, int], int] = _mix
prefetch: Callable[[int], None] = _prefetch
differing_bits: Callable[[int, int, int, int, int], int] = _differing_bits
int8_at, int16_at = _get(8, False), _get(16, False)
int32_at, word_at = _get(32, False), _get(64, False)
big16, big32, big64 = _get(16, True), _get(32, True), _get(64, True)
put8, put16, put32, put64 = _put(8), _put(16), _put(32), _put(64)


@inline
def uint8_at(address: int) -> int:
    return int8_at(address) & 0xFF


@inline
def copy_bytes(to: int, source: int, size: int) -> int:
    """Copies ``size`` bytes. Returns zero if all of them are ASCII, and not zero otherwise."""
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


@inline
def equal_bytes(one: int, other: int, size: int) -> bool:
    """Whether the ``size`` bytes at two addresses are equal.

    From 16 to 64 bytes they are compared as four overlapping blocks of 16 bytes. That takes no
    loop, and so no branch that depends on the size and would be mispredicted.
    """
    if size < 16 or size > 64:
        return equal_bytes_loop(one, other, size)
    last = size - 16
    return differing_bits(one, other, min(16, last), min(32, last), last) == 0


@inline
def equal_bytes_loop(one: int, other: int, size: int) -> bool:
    """`equal_bytes` for any size."""
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


@inline
def hash_bytes(at: int, size: int, seed: int) -> int:
    """int64: a hash of ``size`` bytes. From 16 to 64 bytes it takes no loop (see `equal_bytes`)."""
    if size < 16 or size > 64:
        return hash_bytes_loop(at, size, seed)
    last = at + size - 16
    found = mix(word_at(at) ^ seed, word_at(at + 8) ^ HASH_1)
    block = min(at + 16, last)
    found += mix(word_at(block) ^ HASH_2, word_at(block + 8) ^ seed)
    block = min(at + 32, last)
    found += mix(word_at(block) ^ seed, word_at(block + 8) ^ HASH_3)
    found += mix(word_at(last) ^ HASH_4, word_at(last + 8) ^ seed)
    return mix(found ^ size, seed)


@inline
def hash_bytes_loop(source: int, size: int, seed: int) -> int:
    """`hash_bytes` for any size."""
    found = seed ^ size
    at = 0
    while at + 8 <= size:
        found = mix(found ^ word_at(source + at), seed ^ HASH_1)
        at += 8
    while at < size:
        found = mix(found ^ uint8_at(source + at), seed ^ HASH_2)
        at += 1
    return mix(found, seed ^ HASH_4)


@inline
def offset_at(offsets: int, wide: int, row: int) -> int:
    """Entry ``row`` of an array of offsets, which are int64 if ``wide`` and int32 otherwise."""
    return word_at(offsets + 8 * row) if wide else int32_at(offsets + 4 * row)


@inline
def is_valid(valid: int, row: int) -> int:
    """Bit ``row`` of an Arrow validity bitmap; 1 if there is no bitmap (address 0)."""
    return 1 if valid == 0 else (int8_at(valid + (row >> 3)) >> (row & 7)) & 1


@inline
def is_utf8(at: int, size: int) -> bool:
    """Whether ``size`` bytes are strict UTF-8: no overlong forms, no surrogates, no code points
    above U+10FFFF."""
    end = at + size
    while at < end:
        first = uint8_at(at)
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
        second = uint8_at(at + 1)
        if second < low or second > high:
            return False
        for index in range(2, more + 1):
            if uint8_at(at + index) & 0xC0 != 0x80:
                return False
        at += more + 1
    return True
