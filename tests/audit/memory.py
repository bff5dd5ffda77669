"""A limit of memory for tests of damaged records. A test fails if the audit lists all numbers up to
a damaged one; without the limit, that would take the machine's memory."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

MOST_BYTES = 3 << 30


@contextmanager
def bounded_memory(more: int = MOST_BYTES) -> Iterator[None]:
    """Raises MemoryError in the block if this process needs ``more`` bytes than it has now."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    most = psutil.Process().memory_info().vms + more
    resource.setrlimit(resource.RLIMIT_AS, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
