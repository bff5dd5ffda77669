"""The names that erasure writes in place of others."""

from __future__ import annotations

import re
import secrets

_NAME = re.compile(r"\berased-[0-9a-f]{8}\b")


def new_name() -> str:
    """A random name, from which nobody can compute the one that it replaces."""
    return f"erased-{secrets.token_hex(4)}"


def has_erased_name(text: str) -> bool:
    """Whether there is such a name in ``text``."""
    return _NAME.search(text) is not None
