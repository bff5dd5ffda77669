"""The audits of a share group and of a streams group with a group's id."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kip848_spark.checks.context import AuditContext
from kip848_spark.checks.log_entries import SHARE_KEY_TYPES, LogEntry
from kip848_spark.checks.share_group import ShareAudit
from kip848_spark.checks.stateful import Stateful
from kip848_spark.checks.streams import StreamsAudit

_TYPES: dict[str, type[ShareAudit | StreamsAudit]] = {"share": ShareAudit, "streams": StreamsAudit}


class OtherTypes:
    """The audits of the share group and of the streams group with an id: none before `add` is given
    such a record, and both only if the id was used for both types."""

    def __init__(self, partition: int, group_id: str, context: AuditContext) -> None:
        self._place = partition, group_id, context
        self._audits: dict[str, ShareAudit | StreamsAudit] = {}

    def begin(self, group_type: str) -> ShareAudit | StreamsAudit:
        """A new audit of a group of this type."""
        made = self._audits[group_type] = _TYPES[group_type](*self._place)
        return made

    def add(self, entry: LogEntry, *, unread: bool) -> None:
        """Takes the next record of a share or streams group. ``unread``: an earlier record could
        not be decoded, and may have been one of this type."""
        group_type = "share" if entry.kind in SHARE_KEY_TYPES else "streams"
        found = self._audits.get(group_type)
        if found is None:
            found = self.begin(group_type)
            if unread:
                found.mark_gap()
        found.add(entry)

    def __iter__(self) -> Iterator[ShareAudit | StreamsAudit]:
        return iter(self._audits.values())

    @property
    def names(self) -> list[str]:
        """The types that there are."""
        return list(self._audits)

    @property
    def checked(self) -> Sequence[LogEntry]:
        """The last two records that the only audit has checked; empty if there is no audit."""
        return next((audit.checked for audit in self), ())

    def parts(self) -> Iterator[Stateful]:
        """See `GroupAudit.parts`."""
        for audit in self:
            yield from audit.parts()
