"""What stands for names in an anonymized capture, in forms that an audit recognizes: a hash of old
names can't be computed from the new ones."""

from __future__ import annotations

import hashlib
import re

ANONYMIZED = "the capture is anonymized"
"""Why an audit can't check what depends on the old names."""

_GROUP_MARK = "-anonymized"
_NEW_GROUP = re.compile(f"group-([0-9]{{6,}}|[0-9a-f]{{16}}){_GROUP_MARK}")
_MARK = int.from_bytes(b"anon", "big") << 32
"""The upper half of each replaced hash. Of the hashes that Kafka computes, one in 2**32 has it."""


def replaced_hash(metadata_hash: int, secret: bytes) -> int:
    """The int64 that stands for a hash of the topics' names. Equal hashes stay equal, and others
    nearly always differ. 0 stays: it is that of no topics."""
    if metadata_hash == 0:
        return 0
    raw = metadata_hash.to_bytes(8, "big", signed=True)
    return _MARK | int.from_bytes(hashlib.blake2b(raw, key=secret, digest_size=4).digest(), "big")


def is_replaced_hash(metadata_hash: int) -> bool:
    """Whether this is one of `replaced_hash`, other than 0."""
    return metadata_hash >> 32 == _MARK >> 32


def new_group(mark: str) -> str:
    """The new name of a group. ``mark``: six or more digits, or 16 hexadecimal digits."""
    return f"group-{mark}{_GROUP_MARK}"


def is_anonymized(group_id: str) -> bool:
    """Whether this is the new name of a group."""
    return _NEW_GROUP.fullmatch(group_id) is not None
