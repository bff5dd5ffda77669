"""The compiled kernels: strings, distinct keys, memory that is not theirs, the cache."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kip848_spark.wire import reader
from kip848_spark.wire.decode import Plan, decode
from kip848_spark.wire.definitions import load_shipped
from kip848_spark.wire.program import Program
from tests.wire.scalar_comparison import assert_held, binary, by_columns
from tests.wire.test_decode import damage, mixed

PIECES = (
    *(b"", b"a", b"\x7f", b"\x80", b"\xbf", b"\xc0\x80", b"\xc1\xbf", b"\xc2", b"\xc2\x80"),
    *(b"\xdf\xbf", b"\xe0\x9f\xbf", b"\xe0\xa0\x80", b"\xe0\xa0", b"\xed\x9f\xbf", b"\xed\xa0\x80"),
    *(b"\xef\xbf\xbf", b"\xf0\x8f\xbf\xbf", b"\xf0\x90\x80\x80", b"\xf4\x8f\xbf\xbf", b"\xf0\x90"),
    *(b"\xf4\x90\x80\x80", b"\xf5\x80\x80\x80", b"\xff", b"\xf8\x88\x80\x80\x80", "日".encode()),
)


def commit(metadata: bytes) -> tuple[bytes, bytes]:
    """A commit with that for its metadata."""
    key = bytes.fromhex("0001 0001 67 0001 74 00000000")
    return key, b"\0\3" + bytes(12) + len(metadata).to_bytes(2, "big") + metadata + bytes(8)


@given(
    st.lists(st.lists(st.sampled_from(PIECES), max_size=9).map(b"".join) | st.binary(max_size=20))
)
@settings(max_examples=300, deadline=None)
def test_utf8_as_python_has_it(texts: list[bytes]) -> None:
    """The scalar codec asks Python."""
    assert_held([commit(text) for text in texts])


def test_one_byte_that_is_not_ascii_at_any_place() -> None:
    texts = [bytes(at) + byte + bytes(size - at) for size in range(35) for at in range(size + 1)
             for byte in (b"\x80", b"\xc3\xa9")]  # fmt: skip
    reasons = [row.reason for row in assert_held([commit(text) for text in texts])]
    assert reasons == ["bad_utf8", "none"] * (len(texts) // 2)


def distinct(rows: list[bytes | None]) -> list[int]:
    numbers, some = reader.Source.of(binary(rows)).distinct()
    assert some.count == len(set(rows) - {None})
    return numbers.tolist()


def by_dictionary(rows: list[bytes | None]) -> list[int]:
    known: dict[bytes, int] = {}
    return [-1 if row is None else known.setdefault(row, len(known)) for row in rows]


def test_distinct_strings_of_every_length() -> None:
    """Neighbours that differ in one byte, at any place, in one length or the next."""
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


def test_strings_that_share_a_guess() -> None:
    """All that a guess looks at is the same."""
    rows = [b"k" * 30 + n.to_bytes(2, "big") + b"k" * 40 for n in range(3000)] * 2
    assert distinct(rows) == by_dictionary(rows)


def test_strings_that_share_their_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a known seed this many would not be needed to find two of one slot."""
    monkeypatch.setattr(reader, "_SEED", 1)
    rows = [b"%d" % n for n in range(5000)] * 2
    assert distinct(rows) == by_dictionary(rows)


@pytest.mark.parametrize("share", [0.4, 0.002])
def test_nothing_is_written_beside_the_buffers(
    monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    """64 bytes behind each buffer stay what they were."""
    pairs = damage(mixed(31, 60), random.Random(31), share)
    keys, values = (binary(half) for half in zip(*pairs, strict=True))
    how = Plan.of(load_shipped())
    before = by_columns(decode(how, keys, values))
    for programs in (how.key_programs, how.value_programs):
        for program in filter(None, programs.programs):
            program.rates[:] = [1e9] * len(program.rates)  # as much as the bytes could be
    kept: list[tuple[pa.Buffer, int]] = []

    def guarded(size: int) -> pa.Buffer:
        buffer = pa.allocate_buffer(size + 64, resizable=True)
        np.frombuffer(buffer, np.uint8)[size:] = 0xA5
        kept.append((buffer, size))
        return buffer

    def grown(*_: object) -> None:
        raise AssertionError("there should be room enough")

    monkeypatch.setattr(reader, "new_buffer", guarded)
    monkeypatch.setattr(reader.Filling, "grow", grown)
    assert by_columns(decode(how, keys, values)) == before
    assert len(kept) > 100
    for buffer, size in kept:
        assert buffer.to_pybytes()[size:] == b"\xa5" * 64


def test_no_room_is_larger_than_arrow_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many bytes a batch has (64-bit offsets), and whatever rows took lately: more would
    let an offset of 32 bits become negative before anything asks for room."""
    monkeypatch.setattr(reader, "new_buffer", lambda _: pa.allocate_buffer(8, resizable=True))
    how = Plan.of(load_shipped())
    for layout in how.value_programs.layouts:
        program = Program.of(layout)
        program.rates[:] = [1e9] * len(program.rates)
        filling = reader.Filling(program, 100_000, 1 << 33)
        rooms = filling.state[filling.sizes : filling.bases]
        assert rooms[0] == 100_000
        assert rooms.max() <= 0x7FFFFFFF


BEHIND = """
import ctypes, mmap, random
import pyarrow as pa
from kip848_spark.wire.decode import decode
from tests.wire.scalar_comparison import binary, by_columns, plan
from tests.wire.test_decode import damage, mixed

libc = ctypes.CDLL(None, use_errno=True)
kept = []

def at_the_end(data):
    # The same bytes where the next one belongs to nobody.
    pages = -(-len(data) // mmap.PAGESIZE)
    memory = mmap.mmap(-1, (pages + 1) * mmap.PAGESIZE)
    first = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    end = first + pages * mmap.PAGESIZE
    assert libc.mprotect(ctypes.c_void_p(end), mmap.PAGESIZE, 0) == 0
    ctypes.memmove(end - len(data), data, len(data))
    kept.append(memory)
    return pa.foreign_buffer(end - len(data), len(data))

def moved(array):
    valid, offsets, data = array.buffers()
    size = sum(len(row or b"") for row in array.to_pylist())
    parts = [valid, offsets, at_the_end(data[:size].to_pybytes() if data else b"")]
    return pa.Array.from_buffers(array.type, len(array), parts)

good = mixed(5, 4)
pairs = damage(good, random.Random(5), share=0.5) + good
for first in range(0, len(pairs), 3):
    halves = [binary(half) for half in zip(*pairs[first : first + 3])]
    right = by_columns(decode(plan(), *halves))
    assert by_columns(decode(plan(), *map(moved, halves))) == right
print("read", len(pairs))
"""


def test_nothing_is_read_behind_the_bytes() -> None:
    """The last byte of a batch is the last of a page, and the next page is nobody's."""
    assert run(BEHIND).startswith("read")


def run(script: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
        env=os.environ | environment,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


DECODES = """
from kip848_spark.wire.decode import decode
from tests.wire.scalar_comparison import by_columns, plan
from tests.wire.test_kernels import commit
import pyarrow as pa
key, value = commit(b"text")
(row,) = by_columns(decode(plan(), pa.array([key]), pa.array([value])))
print(row.value["metadata"])
"""


MEANWHILE = """
import os
from kip848_spark.runtime.kernel_cache import compile_meanwhile
compile_meanwhile()
try:
    print("compiled", os.wait()[1])
except ChildProcessError:
    print("nothing to do")
"""


def test_kernels_are_kept(tmp_path: Path) -> None:
    """What is compiled beforehand is all that decoding needs, and stays as it is."""
    where = {"KIP848_CACHE": str(tmp_path), "NUMBA_CACHE_DIR": ""}
    assert run(MEANWHILE, **where) == "compiled 0\n"
    kept = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*.nb?")}
    assert {file.suffix for file in kept} == {".nbi", ".nbc"}
    assert run(DECODES, **where) == "text\n"
    assert {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*.nb?")} == kept
    assert run(MEANWHILE, **where) == "nothing to do\n"


@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
def test_a_damaged_file_is_done_without(tmp_path: Path, suffix: str) -> None:
    run(DECODES, KIP848_CACHE=str(tmp_path), NUMBA_CACHE_DIR="")
    for file in tmp_path.rglob(f"*.{suffix}"):
        file.write_bytes(file.read_bytes()[:40])
    assert run(DECODES, KIP848_CACHE=str(tmp_path), NUMBA_CACHE_DIR="") == "text\n"


def test_without_a_place_to_keep_them() -> None:
    """Nothing can be made below a file."""
    where = {"KIP848_CACHE": "/dev/null", "NUMBA_CACHE_DIR": ""}
    assert run(DECODES, **where) == "text\n"
    assert run(MEANWHILE, **where) == "nothing to do\n"


def test_what_only_looks_needs_no_compiler() -> None:
    script = "import sys, kip848_spark.cli, kip848_spark.wire.decode, kip848_spark.wire.explain\n"
    assert run(script + "print('numba' in sys.modules)") == "False\n"
