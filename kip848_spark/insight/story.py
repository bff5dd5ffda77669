"""The story of rebalances: what happened, why, who was waited for, and what came of it.

`tell` makes it from rows of the tables; nothing is read here. A story consists of plain values, and
of sentences about them. Times in sentences are UTC.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from kip848_spark.insight import rebalance_fields as fields
from kip848_spark.insight.causes_in_words import cause_sentences
from kip848_spark.insight.chronicle import life_before
from kip848_spark.insight.departures import Departure
from kip848_spark.insight.member_names import MemberNames
from kip848_spark.insight.ownership import (
    END,
    TARGET,
    TopicPartition,
    Unowned,
    given_up,
    held_before,
    place,
    times_without_owner,
)
from kip848_spark.insight.patterns import POLL_INTERVAL_LOOP, RESTART_LOOP
from kip848_spark.insight.phrases import (
    between,
    clock,
    count,
    duration,
    listing,
    moment,
    ordinal,
    partitions,
    shift,
)
from kip848_spark.wire.tables import Row

CLASSIC, SHARE, STREAMS = "classic", "share", "streams"
_AN_HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class Evidence:
    """Rows about one group, on which a story is based.

    ``rebalances`` are rows of that table in the order of their offsets: those to explain, and those
    around them. ``groups``, ``members`` and ``assignments`` are rows of the history tables that
    were true at some time around the rebalances. ``departures`` are by the offset of the rebalance
    and the member id. ``patterns`` are rows with the columns `PATTERN_FIELDS`, of these rebalances.
    """

    group_id: str
    rebalances: Sequence[Row]
    groups: Sequence[Row] = ()
    members: Sequence[Row] = ()
    assignments: Sequence[Row] = ()
    departures: Mapping[tuple[int, str], Departure] = field(default_factory=dict)
    patterns: Sequence[Row] = ()

    def names(self) -> MemberNames:
        """Names for the members."""
        return MemberNames(self.members)


@dataclass(frozen=True)
class Line:
    """A part of a story: what it is about (``cause``, ``waited``, ``moved``, ``then``), and the
    sentence."""

    label: str
    text: str


@dataclass(frozen=True)
class RebalanceStory:
    """The story of one rebalance, ``row`` of the table `rebalances`."""

    row: Row
    headline: str
    lines: tuple[Line, ...]
    departures: tuple[Departure, ...] = ()
    given_up: tuple[TopicPartition, ...] = ()
    unowned: tuple[Unowned, ...] = ()


def write_stories(evidence: Evidence, chosen: Iterable[Row]) -> list[RebalanceStory]:
    """The stories of the rebalances ``chosen``, which are among those of ``evidence``, in their
    order."""
    names = evidence.names()
    wanted = list(chosen)
    return [_StoryWriter(evidence, names, row, wanted).story() for row in wanted]


class _StoryWriter:
    """Tells one rebalance."""

    def __init__(
        self, evidence: Evidence, names: MemberNames, row: Row, chosen: Sequence[Row]
    ) -> None:
        self.evidence, self.names, self.row = evidence, names, row
        self.started: datetime = row["started_at"]
        self.later = [
            other for other in evidence.rebalances if other["from_offset"] > row["from_offset"]
        ]
        self.next_is_chosen = bool(self.later) and any(self.later[0] is other for other in chosen)
        self.departures = tuple(
            departure
            for (offset, _), departure in evidence.departures.items()
            if offset == row["from_offset"]
        )
        end = self._end()
        slowest = row["slowest_member"]
        pending = END if row["outcome"] == fields.OPEN else end or self.started
        self.given_up = (
            tuple(given_up(evidence.assignments, slowest, self.started, pending)) if slowest else ()
        )
        exclusive = row["type"] not in (CLASSIC, SHARE)
        self.unowned = (
            tuple(times_without_owner(self._assignments(end), evidence.groups, self.started, end))
            if exclusive
            else ()
        )

    def _assignments(self, end: datetime | None) -> list[Row]:
        """The rows that were true in the episode, and began before the next rebalance if this one
        has an ``end``. What the group owned before is no evidence: it may have been deleted and
        created again since. Rows of a classic group before it, which have no topic id, are none
        either."""
        episode = self.row["episode_id"]
        begin = min(
            row["started_at"]
            for row in (self.row, *self.evidence.rebalances)
            if row["episode_id"] == episode
        )
        until = self.later[0]["from_offset"] if self.later and end is not None else None
        return [
            row
            for row in self.evidence.assignments
            if row["topic_id"] is not None
            and (row["valid_to"] is None or row["valid_to"] >= begin)
            and (until is None or row["from_offset"] < until)
        ]

    def story(self) -> RebalanceStory:
        lines = [
            *(Line("cause", text) for text in (*self._causes(), *self._deleted_before())),
            *(Line("waited", text) for text in self._waited()),
            *(Line("moved", text) for text in self._moved()),
            *(Line("then", text) for text in self._then()),
        ]
        return RebalanceStory(
            self.row, self._headline(), tuple(lines), self.departures, self.given_up, self.unowned
        )

    def _end(self) -> datetime | None:
        """The time at which this rebalance ended, also because another one replaced it or the group
        was deleted."""
        if self.row["outcome"] == fields.SUPERSEDED and self.later:
            following: datetime = self.later[0]["started_at"]
            return following
        found: datetime | None = self.row["converged_at"]
        if self.row["outcome"] == fields.GROUP_DELETED:
            deleted = (
                row["valid_to"]
                for row in self.evidence.groups
                if row["to_offset"] == self.row["to_offset"]
            )
            found = next(deleted, None)
        return found

    def _headline(self) -> str:
        row = self.row
        before = self._epoch_before()
        return (
            f"{self.evidence.group_id} rebalanced at {moment(self.started)} UTC "
            f"({_number(row, before)}{self._outcome()})"
        )

    def _epoch_before(self) -> int | None:
        row = self.row
        earlier = [r for r in self.evidence.rebalances if r["from_offset"] < row["from_offset"]]
        if earlier and earlier[-1]["episode_id"] == row["episode_id"]:
            return int(earlier[-1]["epoch"])
        rows, _ = life_before(self.evidence.groups, self.started)
        # A group that has only committed offsets has no epoch.
        before = [r for r in rows if r["epoch"] is not None]
        while before and (before[-1]["type"], before[-1]["epoch"]) == (row["type"], row["epoch"]):
            before.pop()
        # An empty group may start again at its first epoch without having been deleted, and a
        # group that migrates keeps its epoch.
        return int(before[-1]["epoch"]) if before and before[-1]["epoch"] < row["epoch"] else None

    def _deleted_before(self) -> list[str]:
        """That the group had been deleted, if this is the first rebalance after it."""
        before, deleted = life_before(self.evidence.groups, self.started)
        begin = before[0]["valid_from"] if before else self.started
        earlier = [
            r for r in self.evidence.rebalances if r["from_offset"] < self.row["from_offset"]
        ]
        if deleted is None or any(r["started_at"] >= begin for r in earlier):
            return []
        return [f"the group is new: it had been deleted at {clock(deleted, self.started)}"]

    def _outcome(self) -> str:
        row, outcome = self.row, self.row["outcome"]
        if row["type"] == CLASSIC:
            return ""
        took = row["duration_ms"]
        if outcome == fields.SUPERSEDED:
            end = self._end()
            after = _after(between(self.started, end)) if end else ""
            if self.later and self.later[0]["type"] == CLASSIC:
                return f"; the group went back to the classic protocol{after}"
            stable = f"; stable again after {duration(took)}" if took else ""
            return f", replaced by epoch {row['superseded_by']}{after}{stable}"
        return {
            fields.CONVERGED: f", converged{'' if took is None else _after(took)}",
            fields.GROUP_DELETED: "; the group was deleted before it converged",
            fields.CUT_BY_GAP: "; missing records hide how it ended",
            fields.OPEN: "; not converged by the last record that was read",
        }.get(outcome, "")

    def _causes(self) -> list[str]:
        return cause_sentences(
            self.row,
            self.names,
            self.evidence.groups,
            self.evidence.members,
            self.evidence.assignments,
            {departure.member_id: departure for departure in self.departures},
            self._next_start(),
        )

    def _waited(self) -> list[str]:
        row = self.row
        if row["type"] == CLASSIC:
            return []
        slowest, waited = row["slowest_member"], row["slowest_ms"]
        if slowest is None or not waited:
            return []
        what = f" to give up {partitions(self.given_up)}" if self.given_up else ""
        blocked = [name for name in row["blocked_members"] or () if name != slowest]
        for_them = f"; {listing(map(self.names.name, blocked))} had to wait" if blocked else ""
        return [f"{duration(waited)} for {self.names.name(slowest)}{what}{for_them}"]

    def _moved(self) -> list[str]:
        moved, fewest = self.row["partitions_moved"], self.row["minimal_moves"]
        parts = []
        if moved:
            total = self._partitions()
            parts.append(
                f"{moved:,} of {count(total, 'partition')}" if total else count(moved, "partition")
            )
            if fewest is not None:
                were = "1 was" if fewest == 1 else f"{fewest:,} were" if fewest else "none was"
                parts[-1] += f" ({'all' if fewest == moved else were} necessary)"
        elif moved == 0 and self.row["outcome"] != fields.SUPERSEDED:
            parts.append("no partition")
        if text := without_owner(self.unowned):
            parts.append(text)
        return ["; ".join(parts)] if parts else []

    def _partitions(self) -> int:
        """The number of partitions in the last target assignment of this epoch."""
        end = self._next_start()
        targets = {
            place(row)
            for row in self.evidence.assignments
            if row["role"] == TARGET
            and (row["valid_to"] is None if end is None else held_before(row, end))
        }
        return len(targets)

    def _next_start(self) -> datetime | None:
        """The time of the next rebalance; None if there is none."""
        return self.later[0]["started_at"] if self.later else None

    def _then(self) -> list[str]:
        found = list(self._returns())
        if not found and not self.next_is_chosen and self.later:
            following = self.later[0]
            after = duration(between(self.started, following["started_at"]))
            causes = listing(map(cause_words, following["causes"]))
            found.append(f"the next rebalance came {after} later ({_number(following)}): {causes}")
        return found

    def _returns(self) -> Iterable[str]:
        """Members that left and came back as the same client, within the known rebalances."""
        for member in self.row["left"] or ():
            client = self.names.client(member)
            for later in self.later:
                if any(self.names.client(new) == client for new in later["joined"] or ()):
                    at = clock(later["started_at"], self.started)
                    text = f"{self.names.name(member)} came back at {at} ({_number(later)})"
                    yield text + self._again(client, later)
                    break

    def _again(self, client: str, last: Row) -> str:
        """``: the third time in an hour: restart loop``; empty the first time."""
        away, times = False, 0
        for row in self.evidence.rebalances:
            if row["from_offset"] > last["from_offset"]:
                break
            back = any(self.names.client(name) == client for name in row["joined"] or ())
            recent = row["started_at"] > shift(last["started_at"], -_AN_HOUR)
            times += away and back and recent
            away = (away and not back) or any(
                self.names.client(name) == client for name in row["left"] or ()
            )
        text = f": the {ordinal(times)} time in an hour" if times > 1 else ""
        for pattern in self.evidence.patterns:
            loop = pattern["pattern"] in (RESTART_LOOP, POLL_INTERVAL_LOOP)
            if loop and any(self.names.client(name) == client for name in pattern["members"]):
                return f"{text}: {pattern_words(pattern['pattern'])}"
        return text


def without_owner(unowned: Sequence[Unowned]) -> str:
    """``orders-7 had no owner for 38.1 s``; empty if every partition had one."""
    if not unowned:
        return ""
    open_ones = [one for one in unowned if one.end is None]
    if open_ones:
        some = partitions([one.place for one in open_ones])
        return f"{some} {_have(open_ones)} had no owner since {moment(open_ones[0].start)} UTC"
    times = [between(one.start, one.end) for one in unowned if one.end is not None]
    places = sorted({one.place for one in unowned})
    upto = "" if max(times) - min(times) < 100 else "up to "
    return f"{partitions(places)} had no owner for {upto}{duration(max(times))}"


def _after(ms: float) -> str:
    return f" after {duration(ms)}" if ms else " at once"


def _have(things: Sequence[Any]) -> str:
    return "has" if len(things) == 1 else "have"


_CAUSE_WORDS = {
    fields.JOINED: "a member joined",
    fields.LEFT: "a member left or expired",
    fields.REBALANCE_TIMEOUT: "a member was too slow to revoke",
    fields.SUBSCRIPTION: "a subscription changed",
    fields.ASSIGNOR: "the assignor changed",
    fields.TOPICS: "topics changed",
    fields.REGEX: "a regular expression matched other topics",
    fields.UPGRADED: "upgrade from the classic protocol",
    fields.DOWNGRADED: "downgrade to the classic protocol",
    fields.REPLACED: "a static member was replaced",
    fields.REJOINED: "a member rejoined",
    fields.UNKNOWN: "unknown",
}


def cause_words(cause: str) -> str:
    """A value of the column ``causes`` in a few words."""
    return _CAUSE_WORDS.get(cause, cause)


def pattern_words(pattern: str) -> str:
    """A value of the column ``pattern`` in words: ``restart loop``."""
    return pattern.replace("_", " ").replace("poll interval", "poll-interval")


def pattern_sentence(pattern: Row) -> str:
    """A pattern with its time: ``restart loop: app on 10.0.0.1 left and came back 3 times
    (2026-11-20 02:14:07 to 02:50:00 UTC)``."""
    times = f"{moment(pattern['since'])} to {clock(pattern['until'], pattern['since'])} UTC"
    return f"{pattern_words(pattern['pattern'])}: {pattern['explanation']} ({times})"


def _number(row: Row, before: int | None = None) -> str:
    """``epoch 42``, or ``generation 42`` of a classic group; ``epoch 41 → 42`` with the epoch
    ``before``."""
    word = "generation" if row["type"] == CLASSIC else "epoch"
    return f"{word} {row['epoch']}" if before is None else f"{word} {before} → {row['epoch']}"
