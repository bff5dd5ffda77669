"""The origin of a capture: the cluster and topic of its records, in a file in its folder.

Its name begins with an underscore: Spark, Arrow and Delta skip such files in a folder of data.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

ORIGIN = "_origin.json"
"""The name of the file in the capture's folder."""


class Origin(BaseModel):
    """The source of a capture's records; an id is None if it is not known. ``ends``: the offset
    after the last one that was read of each partition. There may be no record before it, because
    the marker of a transaction is none."""

    model_config = ConfigDict(frozen=True)

    format: Literal[1] = 1
    topic: str
    cluster_id: str | None = None
    topic_id: str | None = None
    captured_at: AwareDatetime
    ends: Mapping[int, Annotated[int, Field(ge=0, lt=2**62)]] = {}

    def to_json(self) -> bytes:
        """The content of the file. `Origin.model_validate_json` reads it."""
        return self.model_dump_json(indent=2).encode() + b"\n"


def derived_id(text: bytes, secret: bytes = b"") -> str:
    """An id in Kafka's form (22 characters of base64), always the same for the same ``text`` and
    ``secret`` (at most 64 bytes). Without the secret nobody can tell which text it stands for."""
    raw = bytearray(hashlib.blake2b(text, key=secret, digest_size=16).digest())
    raw[0] &= 0x7F  # as Kafka's own ids, it must not begin with a dash
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")
