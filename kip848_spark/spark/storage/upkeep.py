"""The part of a lake's storage that keeps it small: fewer files, and none that nobody needs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence


class Upkeep(ABC):
    """What maintenance asks of a lake's tables. The rows of no table change."""

    @abstractmethod
    def compact(self, table: str) -> int:
        """Merges small files of ``table`` into larger ones, in one commit. Returns the number of
        files that were replaced. Raises LakeError."""

    @abstractmethod
    def vacuum(self, table: str, hours: int, keep: Sequence[int]) -> int | None:
        """Deletes the files of ``table`` that no version needs which is younger than ``hours``, and
        none of the versions ``keep``; also files that no commit names. Returns their number, or
        None if it is not known. Raises LakeError."""
