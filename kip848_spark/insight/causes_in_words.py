"""The causes of a rebalance in sentences, with the members, topics and values that changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from kip848_spark.insight import rebalance_fields as fields
from kip848_spark.insight.departures import Departure
from kip848_spark.insight.member_names import MemberNames
from kip848_spark.insight.ownership import TARGET, held_before, holds_after, place
from kip848_spark.insight.phrases import between, count, duration, listing
from kip848_spark.wire.tables import Row


def cause_sentences(
    row: Row,
    names: MemberNames,
    groups: Sequence[Row],
    members: Sequence[Row],
    assignments: Sequence[Row],
    departures: Mapping[str, Departure],
    end: datetime | None,
) -> list[str]:
    """A sentence for each cause of the rebalance ``row``.

    ``groups``, ``members`` and ``assignments`` are rows of the history tables around the rebalance,
    ``departures`` the evidence about members that are gone, by member id. ``end`` is the time of
    the next rebalance (None: there is none).
    """
    causes = _Causes(row, names, groups, members, assignments, departures, end)
    return [text for cause in row["causes"] or () for text in causes.sentences(cause)]


class _Causes:
    """The sentences for the causes of one rebalance."""

    def __init__(
        self,
        row: Row,
        names: MemberNames,
        groups: Sequence[Row],
        members: Sequence[Row],
        assignments: Sequence[Row],
        departures: Mapping[str, Departure],
        end: datetime | None,
    ) -> None:
        self.row, self.names, self.departures = row, names, departures
        self.groups, self.members, self.assignments = groups, members, assignments
        self.end = end
        self.started: datetime = row["started_at"]
        self.triggers: list[str] = list(row["trigger_members"] or ())

    def sentences(self, cause: str) -> list[str]:
        """The sentences for one cause."""
        made: Mapping[str, Callable[[], list[str]]] = {
            fields.JOINED: self._joined,
            fields.LEFT: self._left,
            fields.REBALANCE_TIMEOUT: self._too_slow,
            fields.SUBSCRIPTION: self._subscription,
            fields.ASSIGNOR: self._assignor,
            fields.TOPICS: self._topics,
            fields.REGEX: self._regex,
            fields.UPGRADED: lambda: [
                "the group was upgraded from the classic protocol" + self._by()
            ],
            fields.DOWNGRADED: lambda: ["the group went back to the classic protocol" + self._by()],
            fields.REPLACED: self._replaced,
            fields.REJOINED: lambda: [f"{self._who(self.triggers)} rejoined"],
            fields.UNKNOWN: lambda: ["not known: the records show nothing that requires it"],
        }
        return made[cause]() if cause in made else [cause]

    def _who(self, members: Sequence[str]) -> str:
        """Members, with host and client id if there are few."""
        if not members:
            return "a member"
        shown = self.names.full if len(members) <= 2 else self.names.name
        return listing(map(shown, members))

    def _by(self) -> str:
        return f" ({self._who(self.triggers)})" if self.triggers else ""

    def _joined(self) -> list[str]:
        joined = list(self.row["joined"] or self.triggers)
        return [f"{self._who(joined)} joined"]

    def _left(self) -> list[str]:
        left = list(self.row["left"] or self.triggers)
        few = len(left) <= 3
        explained = [name for name in left if few and name in self.departures]
        sentences = [
            f"{self.names.full(name)} {self.departures[name].sentence()}" for name in explained
        ]
        rest = [name for name in left if name not in explained]
        if rest:
            whose = "its session" if len(rest) == 1 else "their sessions"
            likely = (
                f"; probably {self.row['likely']}" if self.row["likely"] else self._verdicts(rest)
            )
            sentences.append(f"{self._who(rest)} left or {whose} expired{likely}")
        return sentences

    def _verdicts(self, members: Sequence[str]) -> str:
        """What is known of many members that are gone: from control records, and from commits."""
        known = [self.departures[name] for name in members if name in self.departures]
        closed = sum(one.away_since is not None for one in known)
        verdicts = Counter(one.likely for one in known if one.away_since is None)
        parts = [f"{number} probably {likely}" for likely, number in verdicts.items() if likely]
        words = f"; {closed} had closed as static members and did not come back" if closed else ""
        return words + (f"; to judge by their last commits, {listing(parts)}" if parts else "")

    def _too_slow(self) -> list[str]:
        gone = list(self.triggers or self.row["left"] or ())
        held = sorted(
            {
                place(row)
                for row in self.assignments
                if row["member_id"] in gone
                and row["role"] == "pending_revocation"
                and held_before(row, self.started)
            }
        )
        what = f"{listing(f'{topic}-{number}' for topic, number in held)}" if held else "partitions"
        return [
            f"{self._who(gone)} did not give up {what} within the rebalance timeout and was removed"
        ]

    def _subscription(self) -> list[str]:
        sentences = []
        changed = [name for name in self.triggers if name not in (self.row["left"] or ())]
        for name in changed[:3]:
            before = self._member(name, lambda row: held_before(row, self.started))
            after = self._member(name, self._holds_after)
            change = _subscription_change(before, after) if before and after else ""
            change = change or self._resolved_change(name)
            sentences.append(f"{self.names.full(name)} changed its subscription{change}")
        rest = changed[3:]
        if rest:
            sentences.append(f"so did {count(len(rest), 'other')}")
        return sentences or ["a member changed its subscription"]

    def _resolved_change(self, name: str) -> str:
        """The earlier change of a member's subscription of which this rebalance resolved the
        regular expression, and how long that took; empty if there was none, or if it is not
        known."""
        row = self._member(name, lambda row: held_before(row, self.started))
        if row is None or fields.REGEX not in self.row["causes"]:
            return ""
        since: datetime = row["valid_from"]
        rows = [one for one in self.members if one["member_id"] == name]
        for one in sorted(rows, key=lambda one: one["from_offset"], reverse=True):
            if one["from_offset"] >= row["from_offset"]:
                continue
            if change := _subscription_change(one, row):
                return (
                    f"{change}, which was resolved {duration(between(since, self.started))} later"
                )
            since = one["valid_from"]
        return ""

    def _member(self, name: str, when: Callable[[Row], bool]) -> Row | None:
        return next((r for r in self.members if r["member_id"] == name and when(r)), None)

    def _holds_after(self, row: Row) -> bool:
        """True if a row is true after the record of the epoch."""
        return holds_after(row, self.row["from_offset"])

    def _assignor(self) -> list[str]:
        before = next((r["assignor"] for r in self.groups if held_before(r, self.started)), None)
        after = next((r["assignor"] for r in self.groups if self._holds_after(r)), None)
        known = before and after and before != after
        return [
            f"the assignor changed from {before} to {after}" if known else "the assignor changed"
        ]

    def _topics(self) -> list[str]:
        if self.row["type"] == "share" and self._has_the_same_hash():
            return [self._initialized()]
        if change := self._target_change("is no longer there"):
            return [f"a subscribed topic changed: {change}"]
        return [
            "the metadata of a subscribed topic changed (partitions, racks, or the topic itself)"
        ]

    def _regex(self) -> list[str]:
        patterns = sorted(
            {
                row["subscribed_regex"]
                for row in self.members
                if row["subscribed_regex"] and held_before(row, self.started)
            }
        )
        which = (
            f"the regular expression {patterns[0]}"
            if len(patterns) == 1
            else "a regular expression"
        )
        change = self._target_change("is no longer matched")
        known = f": {change}" if change else ""
        joined = list(self.row["joined"] or ())
        if joined and fields.JOINED not in self.row["causes"]:
            return [f"{self._who(joined)} joined, and {which} was resolved{known}"]
        if fields.SUBSCRIPTION in self.row["causes"] and not known:
            in_subscription = any(map(self._resolved_change, self.triggers))
            return [] if in_subscription else [f"{which} was resolved"]
        return [f"{which} matched other topics than before{known}"]

    def _initialized(self) -> str:
        """That the share state of partitions was initialized, which are those in the target
        assignment that were not in the one before."""
        before, new = self._targets()
        topics = Counter(topic for topic, _ in new - before)
        if not topics:
            return "partitions whose share state is initialized were not assigned yet"
        which = [f"{topic} ({count(more, 'partition')})" for topic, more in sorted(topics.items())]
        return f"the share state of {listing(which)} was initialized, so that they can be assigned"

    def _target_change(self, gone: str) -> str:
        """How the topics in the target assignment differ from those before. ``gone`` is said of a
        topic of which no partition is left."""
        before, new = self._targets()
        grown = Counter(topic for topic, _ in new - before)
        sizes = Counter(topic for topic, _ in before)
        parts = [
            f"{topic} now has {sizes[topic] + more:,} partitions instead of {sizes[topic]:,}"
            if sizes[topic]
            else f"{topic} ({count(more, 'partition')}) is new"
            for topic, more in sorted(grown.items())
        ]
        if new and self.row["outcome"] != fields.CUT_BY_GAP:  # else records of it may be missing
            left = {topic for topic, _ in new}
            parts += [f"{topic} {gone}" for topic in sorted(sizes) if topic not in left]
        return listing(parts)

    def _has_the_same_hash(self) -> bool:
        """Whether the group has the same metadata hash as before, so that no topic changed."""
        before = [r["metadata_hash"] for r in self.groups if held_before(r, self.started)]
        after = [r["metadata_hash"] for r in self.groups if self._holds_after(r)]
        return bool(before and after) and after[0] is not None and before[-1] == after[0]

    def _targets(self) -> tuple[set[tuple[str, int]], set[tuple[str, int]]]:
        """The partitions in the target assignment before the epoch, and in that of the epoch."""
        rows = [row for row in self.assignments if row["role"] == TARGET]
        return (
            {place(row) for row in rows if held_before(row, self.started)},
            {place(row) for row in rows if self._is_target_of_epoch(row)},
        )

    def _is_target_of_epoch(self, row: Row) -> bool:
        return row["valid_to"] is None if self.end is None else held_before(row, self.end)

    def _replaced(self) -> list[str]:
        new = list(self.row["joined"] or self.triggers)
        if not new:
            return ["a static member was replaced by a new process with the same instance id"]
        return [f"{self._who(new)} replaced a static member that had the same instance id"]


def _subscription_change(before: Row, after: Row) -> str:
    """``: added payments, removed audit``"""
    old, new = (set(row["subscribed_topics"] or ()) for row in (before, after))
    parts = []
    if new - old:
        parts.append(f"added {listing(sorted(new - old))}")
    if old - new:
        parts.append(f"removed {listing(sorted(old - new))}")
    if before["subscribed_regex"] != after["subscribed_regex"]:
        parts.append(f"pattern {after['subscribed_regex'] or 'none'}")
    if before["assignor"] != after["assignor"]:
        parts.append(f"assignor {after['assignor'] or 'none'}")
    return f": {', '.join(parts)}" if parts else ""
