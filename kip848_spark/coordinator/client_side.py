"""What a group keeps of its members' own assignors: KIP-848 "Client Side Mode", release ``kip``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple


class AssignorResult(NamedTuple):
    """What an assignor says to a member, beside its partitions: the fields Error, MetadataVersion
    and MetadataBytes of keys 7 and 8, and of a heartbeat response.
    """

    error: int = 0
    metadata_version: int = 0
    metadata_bytes: str = ""
    """In base64."""

    @classmethod
    def of(cls, fields: dict[str, Any]) -> AssignorResult:
        """Read from a record or a request; what is absent has the default."""
        return cls(
            fields.get("error", 0),
            fields.get("metadataVersion", 0),
            fields.get("metadataBytes", ""),
        )

    def fields(self) -> dict[str, Any]:
        """As a record or a response has them."""
        return {
            "error": self.error,
            "metadataVersion": self.metadata_version,
            "metadataBytes": self.metadata_bytes,
        }


NO_RESULT = AssignorResult()
"""Of a target that the coordinator computed."""


@dataclass
class ClientSide:
    """The state of the client-side mode in one group."""

    chosen: str | None = None
    """The member that computes the assignment."""
    prepared_epoch: int = 0
    """The group epoch that it was told to compute it for."""
    prepared_members: frozenset[str] = frozenset()
    targets: dict[str, AssignorResult] = field(default_factory=dict)
    """By member, with its target (key 7)."""
    current: dict[str, AssignorResult] = field(default_factory=dict)
    """By member, with its current assignment (key 8)."""

    def target_of(self, member_id: str) -> AssignorResult:
        """What was installed for a member."""
        return self.targets.get(member_id, NO_RESULT)

    def current_of(self, member_id: str) -> AssignorResult:
        """What a member has at its epoch."""
        return self.current.get(member_id, NO_RESULT)
