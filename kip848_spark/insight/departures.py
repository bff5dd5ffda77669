"""Did a member leave, or did its session expire?

Both write the same records. What differs is what happened before: a client that closes cleanly
commits first, and a member whose session expires has sent nothing for the session timeout.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kip848_spark.insight.ownership import held_before
from kip848_spark.insight.phrases import between, clock, duration
from kip848_spark.wire.tables import Row

DEFAULT_SESSION_TIMEOUT_MS = 45_000
"""The session timeout of consumer groups by the broker's default
(`group.consumer.session.timeout.ms`, Kafka 4.0 to 4.4)."""
HEARTBEAT_INTERVAL_MS = 5_000
"""The heartbeat interval of consumer groups by the broker's default. The last heartbeat may be this
much older than the last commit."""
CLEAN_CLOSE_MS = 5_000
"""A last commit that is not older than this means that the client was running."""
AT_CLOSE_MS = 1_000
"""A commit that is not older than this was made when the client closed."""
_JUST_MS = 500
REGULAR = 2
"""A silence is a sign if it lasts this many times the usual interval between commits."""

AWAY_EPOCH = -2
"""The epoch of a static member that has left temporarily (docs/kafka-facts.md#member-epochs)."""

LEFT, EXPIRED = "left", "expired"
_LEFT_FOR_GOOD = "left for good, or was removed by an administrator"
"""What `LEFT` means for a static member: one that only closes stays in the group."""


def is_away(row: Row) -> bool:
    """True if a row of `member_history` is of a static member that has left temporarily."""
    return bool(row["member_epoch"] == AWAY_EPOCH)


def away_since(rebalance: Row, member: str, members: Iterable[Row]) -> datetime | None:
    """When a member that is gone had left temporarily; None if it had not, if the beginning was not
    seen, or if another member replaced it. ``members`` are rows of `member_history`."""
    rows = list(members)
    mine = (row for row in rows if row["member_id"] == member)
    last = next((row for row in mine if held_before(row, rebalance["started_at"])), None)
    if last is None or not is_away(last) or last["known_from"] is not None:
        return None
    joined = {row["instance_id"] for row in rows if row["member_id"] in (rebalance["joined"] or ())}
    since: datetime = last["valid_from"]
    return None if last["instance_id"] in joined else since


def joined_at(rebalance: Row, member: str, members: Iterable[Row]) -> datetime | None:
    """When a member that is gone had joined; None if that was not seen. ``members`` are rows of
    `member_history`."""
    before = [
        row
        for row in members
        if row["member_id"] == member and row["from_offset"] < rebalance["from_offset"]
    ]
    first: Row | None = None
    end = None
    for row in sorted(before, key=lambda row: row["from_offset"]):
        if first is None or row["valid_from"] != end:
            first = row
        end = row["valid_to"]
    if first is None or first["known_from"] is not None:
        return None
    since: datetime = first["valid_from"]
    return since


@dataclass(frozen=True)
class Departure:
    """A member that is gone, and what its commits say.

    ``removed_at`` is the time of its tombstone, ``owned`` the number of partitions that it owned.
    ``last_commit_at`` is the time of the last commit of these partitions before. ``usual_ms`` is
    the median time between two commits of one partition during the minutes before (None: too few).
    ``session_timeout_ms`` is None if the records do not give it. ``away_since`` is the time at
    which it had left temporarily, as a static member (None: it had not). ``concluded`` is a
    conclusion that control records allow: it has precedence over what the commits say.
    ``joined_at`` is the time at which it had joined, if that is known. ``commits``: whether the
    partitions of its commits are known, as they are not for share and streams groups. ``static``:
    whether it had an instance id. Such a member stays in the group when it closes.
    """

    member_id: str
    removed_at: datetime
    owned: int
    last_commit_at: datetime | None = None
    usual_ms: float | None = None
    session_timeout_ms: int | None = None
    classic: bool = False
    away_since: datetime | None = None
    concluded: str | None = None
    joined_at: datetime | None = None
    commits: bool = True
    static: bool = False

    @property
    def silent_ms(self) -> float | None:
        """The time from the last commit to the removal."""
        if self.last_commit_at is None:
            return None
        return max(0.0, between(self.last_commit_at, self.removed_at))

    @property
    def likely(self) -> str | None:
        """`LEFT`, `EXPIRED`, or None if neither control records nor the commits decide."""
        if self.concluded is not None:
            return self.concluded
        silent = self.silent_ms
        if silent is None:
            return None
        if silent <= CLEAN_CLOSE_MS:
            # A cluster may allow short sessions: then a member that misses its commits was gone.
            return LEFT if silent <= max(AT_CLOSE_MS, REGULAR * (self.usual_ms or 0)) else None
        return EXPIRED if self._silent_for_a_session and self._commits_regularly else None

    def sentence(self) -> str:
        """What happened to the member, the evidence and the conclusion, in words without the
        member's name."""
        if self.away_since is not None:
            closed = clock(self.away_since, self.removed_at)
            return (
                f"closed at {closed} as a static member and did not come back within its session "
                "timeout"
            )
        verdict = self.likely
        words = self._evidence(verdict)
        if verdict is not None:
            probably = f"probably {_LEFT_FOR_GOOD if self.static and verdict == LEFT else verdict}"
            words = f"{words}: {probably}" if words else probably
        return f"left or its session expired; {words}"

    def _evidence(self, verdict: str | None) -> str:
        silent = self.silent_ms
        if silent is None:
            if verdict is not None:
                return ""
            if not self.commits:
                return "the records of such a group do not tell which"
            if self.owned and self.joined_at is not None:
                stayed = duration(between(self.joined_at, self.removed_at))
                return f"it had joined {stayed} before and not committed, so it is not known which"
            return (
                "no commit of its partitions is on record, so it is not known which"
                if self.owned
                else "it owned no partition, so no commit tells which"
            )
        words = f"its last commit was {duration(silent)} before"
        if silent < _JUST_MS:
            words = "it committed just before"
        if verdict == EXPIRED:
            return f"{words} (session timeout {self._session})"
        if verdict == LEFT:
            return words
        if self.classic and self._silent_for_a_session:
            return (
                f"{words}, and the rebalance of a classic group may have taken a part of this time"
            )
        if self._silent_for_a_session:
            return f"{words}, but it commits too seldom to tell which"
        return f"{words}, which does not tell which (session timeout {self._session})"

    @property
    def _session(self) -> str:
        if self.session_timeout_ms is None:
            return f"{duration(DEFAULT_SESSION_TIMEOUT_MS)}, assumed"
        return duration(self.session_timeout_ms)

    @property
    def _silent_for_a_session(self) -> bool:
        session = self.session_timeout_ms or DEFAULT_SESSION_TIMEOUT_MS
        return (self.silent_ms or 0) >= session - min(HEARTBEAT_INTERVAL_MS, session / 3)

    @property
    def _commits_regularly(self) -> bool:
        usual = self.usual_ms
        return not self.classic and usual is not None and usual * REGULAR <= (self.silent_ms or 0)

    def described(self) -> dict[str, Any]:
        """The departure as plain values."""
        return {
            "member_id": self.member_id,
            "removed_at": self.removed_at,
            "last_commit_at": self.last_commit_at,
            "silent_ms": self.silent_ms,
            "usual_commit_interval_ms": self.usual_ms,
            "session_timeout_ms": self.session_timeout_ms or DEFAULT_SESSION_TIMEOUT_MS,
            "session_timeout_assumed": self.session_timeout_ms is None,
            "away_since": self.away_since,
            "likely": self.likely,
        }
