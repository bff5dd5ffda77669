"""Replaces a file in one step, so that no reader sees a part of it."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A new file beside ``path``, for the caller to write. It takes the place of ``path`` at the
    end, or is deleted after an exception. Raises OSError if it can't take the place."""
    new = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        yield new
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
