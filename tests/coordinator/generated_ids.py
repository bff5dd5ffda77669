"""Ids that the broker generated, where the reference generated others for the same members."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.coordinator.normalize import Json


class GeneratedIds:
    """Pairs of ids: the broker's, and the reference's."""

    def __init__(self) -> None:
        self._references: dict[str, str] = {}
        self._brokers: dict[str, str] = {}

    def equate(self, broker: str, reference: str) -> None:
        """Note that two ids name the same member."""
        self._references[broker] = reference
        self._brokers[reference] = broker

    def for_reference(self, value: Any) -> Any:
        """JSON of the broker with the reference's ids."""
        return _replace(value, self._references)

    def for_broker(self, value: Any) -> Any:
        """JSON of the reference with the broker's ids."""
        return _replace(value, self._brokers)

    def match_members(self, reference: Json, broker: Json) -> None:
        """Note the ids of members whose JoinGroup is not answered yet, from both answers to
        DescribeGroups."""
        for ours, theirs in zip(reference["groups"], broker["groups"], strict=True):
            ids = {m["memberId"]: m["clientId"] for m in ours["members"]}
            for member in theirs["members"]:
                client = member["clientId"]
                if self.for_reference(member["memberId"]) not in ids and client in ids.values():
                    made = next(mine for mine in ids if ids[mine] == client)
                    self.equate(member["memberId"], made)


def _replace(value: Any, names: Mapping[str, str]) -> Any:
    if not names:
        return value
    if isinstance(value, dict):
        return {key: _replace(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [_replace(item, names) for item in value]
    return names.get(value, value) if isinstance(value, str) else value
