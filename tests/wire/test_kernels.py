"""The compiled kernels: strings, distinct keys, memory safety, and the cache of machine code."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.core.errors import NumbaError

from kip848_spark.wire import memory, reader
from kip848_spark.wire.decode import DecodePlan, decode
from kip848_spark.wire.definitions import load_shipped
from kip848_spark.wire.program import Program
from tests.wire.scalar_comparison import assert_codecs_agree, binary, by_columns
from tests.wire.test_decode import damage, mixed

pytestmark = pytest.mark.slow

PIECES = (
    *(b"", b"a", b"\x7f", b"\x80", b"\xbf", b"\xc0\x80", b"\xc1\xbf", b"\xc2", b"\xc2\x80"),
    *(b"\xdf\xbf", b"\xe0\x9f\xbf", b"\xe0\xa0\x80", b"\xe0\xa0", b"\xed\x9f\xbf", b"\xed\xa0\x80"),
    *(b"\xef\xbf\xbf", b"\xf0\x8f\xbf\xbf", b"\xf0\x90\x80\x80", b"\xf4\x8f\xbf\xbf", b"\xf0\x90"),
    *(b"\xf4\x90\x80\x80", b"\xf5\x80\x80\x80", b"\xff", b"\xf8\x88\x80\x80\x80", "日".encode()),
)


def commit(metadata: bytes) -> tuple[bytes, bytes]:
    """The key and the value (version 3) of a commit with this metadata."""
    key = bytes.fromhex("0001 0001 67 0001 74 00000000")
    return key, b"\0\3" + bytes(12) + len(metadata).to_bytes(2, "big") + metadata + bytes(8)


@given(
    st.lists(st.lists(st.sampled_from(PIECES), max_size=9).map(b"".join) | st.binary(max_size=20))
)
@settings(max_examples=300, deadline=None)
def test_utf8_is_accepted_as_in_python(texts: list[bytes]) -> None:
    """The scalar codec decodes strings with Python's strict decoder."""
    assert_codecs_agree([commit(text) for text in texts])


def test_a_byte_that_is_not_ascii_at_every_position() -> None:
    texts = [bytes(at) + byte + bytes(size - at) for size in range(35) for at in range(size + 1)
             for byte in (b"\x80", b"\xc3\xa9")]  # fmt: skip
    reasons = [row.reason for row in assert_codecs_agree([commit(text) for text in texts])]
    assert reasons == ["bad_utf8", "none"] * (len(texts) // 2)


def distinct(rows: list[bytes | None]) -> list[int]:
    numbers, some = reader.ByteRows.of(binary(rows)).distinct()
    assert some.count == len(set(rows) - {None})
    return numbers.tolist()


def by_dictionary(rows: list[bytes | None]) -> list[int]:
    known: dict[bytes, int] = {}
    return [-1 if row is None else known.setdefault(row, len(known)) for row in rows]


def test_distinct_strings_of_every_length() -> None:
    """Of each length, strings that differ in one byte, at every third position."""
    rows: list[bytes | None] = [None, b""]
    for size in range(1, 150):
        plain = bytes(size)
        rows += [plain]
        rows += [plain[:at] + b"\1" + plain[at + 1 :] for at in {*range(0, size, 3), size - 1}]
    draw = random.Random(7)
    rows += draw.sample(rows, len(rows) // 2)
    assert distinct(rows) == by_dictionary(rows)


def test_many_distinct_strings() -> None:
    draw = random.Random(8)
    rows = [draw.randbytes(draw.choice([3, 9, 20, 70])) for _ in range(20_000)]
    rows = draw.choices(rows, k=60_000)
    assert distinct(rows) == by_dictionary(rows)


def test_strings_that_share_a_cache_entry() -> None:
    """Strings that are equal in all bytes of the sample by which the cache is looked up."""
    rows = [b"k" * 30 + n.to_bytes(2, "big") + b"k" * 40 for n in range(3000)] * 2
    assert distinct(rows) == by_dictionary(rows)


def test_strings_that_share_their_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enough strings for collisions in the hash table, with a fixed seed."""
    monkeypatch.setattr(reader, "_HASH_SEED", 1)
    rows = [b"%d" % n for n in range(5000)] * 2
    assert distinct(rows) == by_dictionary(rows)


@pytest.mark.parametrize("share", [0.4, 0.002])
def test_nothing_is_written_outside_the_buffers(
    monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    """A guard of 64 bytes after each buffer stays unchanged."""
    pairs = damage(mixed(31, 60), random.Random(31), share)
    keys, values = (binary(half) for half in zip(*pairs, strict=True))
    how = DecodePlan.of(load_shipped())
    before = by_columns(decode(how, keys, values))
    for programs in (how.key_programs, how.value_programs):
        for program in filter(None, programs.programs):
            program.usage[:] = [1e9] * len(program.usage)  # allocate the largest buffers at once
    allocated: list[tuple[pa.Buffer, int]] = []

    def guarded(size: int) -> pa.Buffer:
        buffer = pa.allocate_buffer(size + 64, resizable=True)
        np.frombuffer(buffer, np.uint8)[size:] = 0xA5
        allocated.append((buffer, size))
        return buffer

    def fail(*_: object) -> None:
        raise AssertionError("the capacity should suffice")

    monkeypatch.setattr(reader, "new_buffer", guarded)
    monkeypatch.setattr(reader.ProgramRun, "grow", fail)
    assert by_columns(decode(how, keys, values)) == before
    assert len(allocated) > 100
    for buffer, size in allocated:
        assert buffer.to_pybytes()[size:] == b"\xa5" * 64


def test_no_capacity_exceeds_arrow_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the bytes of a batch (with 64-bit offsets) and the usage of the last one. A larger
    capacity would let 32-bit offsets overflow before it is exhausted."""
    monkeypatch.setattr(reader, "new_buffer", lambda _: pa.allocate_buffer(8, resizable=True))
    how = DecodePlan.of(load_shipped())
    for layout in how.value_programs.layouts:
        program = Program.of(layout)
        program.usage[:] = [1e9] * len(program.usage)
        one_run = reader.ProgramRun(program, 100_000, 1 << 33)
        capacities = one_run.state[one_run.sizes : one_run.bases]
        assert capacities[0] == 100_000
        assert capacities.max() <= 0x7FFFFFFF


GUARD_PAGE = """
import ctypes, mmap, random
import pyarrow as pa
from kip848_spark.wire.decode import decode
from tests.wire.scalar_comparison import binary, by_columns, plan
from tests.wire.test_decode import damage, mixed

libc = ctypes.CDLL(None, use_errno=True)
mapped = []

def before_guard_page(data):
    # The same bytes, directly before an unmapped guard page.
    pages = -(-len(data) // mmap.PAGESIZE)
    memory = mmap.mmap(-1, (pages + 1) * mmap.PAGESIZE)
    first = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    end = first + pages * mmap.PAGESIZE
    assert libc.mprotect(ctypes.c_void_p(end), mmap.PAGESIZE, 0) == 0
    ctypes.memmove(end - len(data), data, len(data))
    mapped.append(memory)
    return pa.foreign_buffer(end - len(data), len(data))

def moved(array):
    valid, offsets, data = array.buffers()
    size = sum(len(row or b"") for row in array.to_pylist())
    parts = [valid, offsets, before_guard_page(data[:size].to_pybytes() if data else b"")]
    return pa.Array.from_buffers(array.type, len(array), parts)

good = mixed(5, 4)
pairs = damage(good, random.Random(5), share=0.5) + good
for first in range(0, len(pairs), 3):
    halves = [binary(half) for half in zip(*pairs[first : first + 3])]
    right = by_columns(decode(plan(), *halves))
    assert by_columns(decode(plan(), *map(moved, halves))) == right
print("read", len(pairs))
"""


def test_nothing_is_read_after_the_bytes() -> None:
    """The last byte of a batch is the last byte before an unmapped guard page."""
    assert run(GUARD_PAGE).startswith("read")


def run(script: str, **environment: str) -> str:
    return finish(script, **environment).stdout


def finish(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a Python program in a process of its own, which must succeed."""
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
        env=os.environ | environment,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done


DECODES = """
from kip848_spark.wire.decode import decode
from tests.wire.scalar_comparison import by_columns, plan
from tests.wire.test_kernels import commit
import pyarrow as pa
key, value = commit(b"text")
(row,) = by_columns(decode(plan(), pa.array([key]), pa.array([value])))
print(row.value["metadata"])
"""


COMPILES = """
import os
from kip848_spark.runtime.kernel_cache import compile_in_background
compile_in_background()
try:
    print("compiled", os.wait()[1])
except ChildProcessError:
    print("nothing to do")
"""


@pytest.fixture(scope="module")
def compiled_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder with all kernels, which takes seconds to compile. Tests do not change it."""
    folder = tmp_path_factory.mktemp("compiled")
    where = {"KIP848_CACHE": str(folder), "NUMBA_CACHE_DIR": ""}
    assert run(COMPILES, **where) == "compiled 0\n"
    return folder


def test_kernels_are_cached(compiled_cache: Path) -> None:
    """Decoding needs only what `compile_in_background` compiled, and adds nothing to it."""
    where = {"KIP848_CACHE": str(compiled_cache), "NUMBA_CACHE_DIR": ""}
    cached = {file: file.stat().st_mtime_ns for file in compiled_cache.rglob("*.nb?")}
    assert {file.suffix for file in cached} == {".nbi", ".nbc"}
    assert run(DECODES, **where) == "text\n"
    assert {file: file.stat().st_mtime_ns for file in compiled_cache.rglob("*.nb?")} == cached
    assert run(COMPILES, **where) == "nothing to do\n"


UNUSABLE = "The cache of compiled kernels cannot be used"


@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
def test_a_damaged_cache_is_replaced_by_compilation(
    compiled_cache: Path, tmp_path: Path, suffix: str
) -> None:
    shutil.copytree(compiled_cache, tmp_path, dirs_exist_ok=True)
    where = {"KIP848_CACHE": str(tmp_path), "NUMBA_CACHE_DIR": ""}
    assert UNUSABLE not in finish(DECODES, **where).stderr
    for file in tmp_path.rglob(f"*.{suffix}"):
        file.write_bytes(file.read_bytes()[:40])
    done = finish(DECODES, **where)
    assert done.stdout == "text\n"
    assert done.stderr.count(UNUSABLE) == 1


def test_without_a_writable_cache_folder() -> None:
    """No folder can be created below a file."""
    where = {"KIP848_CACHE": "/dev/null", "NUMBA_CACHE_DIR": ""}
    done = finish(DECODES, **where)
    assert done.stdout == "text\n"
    assert done.stderr.count(UNUSABLE) == 1
    assert "NotADirectoryError" in done.stderr
    assert run(COMPILES, **where) == "nothing to do\n"


def test_a_kernel_that_does_not_compile_raises(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """At once: it is not taken for a fault of the cache and compiled again without it."""
    signature = "int64(int64)"
    compile_ = numba.njit
    compiled: list[object] = []

    def njit(*arguments: object, **options: object) -> object:
        if arguments == (signature,):  # Numba compiles functions of its own as well
            compiled.append(options.get("cache"))
        return compile_(*arguments, **options)

    def broken(address: int) -> int:
        return address.there_is_no_such_attribute  # type: ignore[attr-defined]

    monkeypatch.setattr(memory.numba, "njit", njit)
    with pytest.raises(NumbaError, match="there_is_no_such_attribute"):
        memory.compile_kernel(signature)(broken)
    assert compiled == [True]
    assert not caplog.records


def test_reading_modules_do_not_import_numba() -> None:
    script = "import sys, kip848_spark.cli, kip848_spark.wire.decode, kip848_spark.wire.explain\n"
    assert run(script + "print('numba' in sys.modules)") == "False\n"
