"""Checks offset commits (key 1) against the topics and the group (docs/audit.md).

A commit names no member, so nothing is said about who made it: clients may commit partitions that
they do not own. Only the commits that the reference replays are checked, at no cost for control
records.
"""

from __future__ import annotations

from typing import NamedTuple

from kip848_spark.checks.audited_group import AuditedGroup
from kip848_spark.checks.log_entries import LogEntry
from kip848_spark.checks.results import COMMITS, WARNING, Tally
from kip848_spark.coordinator.topics import Topic

TOPIC_NOT_PROVEN = "the topic of the commit may have been another one at that time"
BY_VERSION = "only the value version of the commit was compared: its topic is not proven"
GROUP_NOT_KNOWN = "the subscriptions of the group at that time are not known"
SHORTEST_TERM_MS = 2_000
"""A broker of another release leads a partition for longer: it has to restart in between."""
_TOPIC_IDS_FROM = 4
_COMPARED = (3, 4)
"""Value versions that depend on the release: 4.0 writes 3, later releases write 4. Older ones stand
for a commit with a retention time of its own."""


class _Version(NamedTuple):
    """The value version of a commit."""

    number: int
    entry: LogEntry


class CommitChecker:
    """Checks the commits of one group, in the order of their offsets."""

    def __init__(self, audited: AuditedGroup, *, release_given: bool) -> None:
        self._audited = audited
        self._release_given = release_given
        self._committed: dict[str, str] = {}
        """By topic name: the newest topic id that a commit or a target had."""
        self._last: list[_Version] = []
        """The last two commits whose value versions depend on the release."""

    def check(self, tally: Tally, entry: LogEntry) -> None:
        """Checks a commit, before it is replayed."""
        key, value = entry.record["key"]["data"], entry.value
        name, number = key["topic"], key["partition"]
        listed = self._audited.known_topics.listed.get(name)
        if value is None:
            self._check_tombstone(tally, entry, name, listed)
            return
        self._check_version(tally, entry)
        topic_id = value.get("topicId")
        existed = listed is not None and self._existed(name, listed)
        if topic_id is not None:
            other = self._audited.known_topics.name_of(topic_id)
            replaced = existed and listed is not None and topic_id != listed.topic_id
            if (other is not None and other != name) or replaced:
                tally.add_disagreement(
                    COMMITS,
                    "commit_topic_id",
                    entry,
                    {"topic": name, "topicId": None if listed is None else listed.topic_id},
                    {"topic": other, "topicId": topic_id},
                    member="",
                )
                return
            self._committed[name] = topic_id
            existed = existed or (listed is not None and topic_id == listed.topic_id)
        if not existed or listed is None:
            tally.add_verified(COMMITS, BY_VERSION)
        elif not 0 <= number < listed.partitions:
            tally.add_disagreement(
                COMMITS,
                "partition_does_not_exist",
                entry,
                {"topic": name, "partition": f"below {listed.partitions}"},
                {"topic": name, "partition": number},
                member="",
            )
        else:
            tally.add_verified(COMMITS)

    def _existed(self, name: str, listed: Topic) -> bool:
        """Whether the topic that is listed now was the one of that name at the time: its id was in
        an earlier commit, or is in a target. A topic that was deleted does not come back."""
        if self._committed.get(name) == listed.topic_id:
            return True
        group = self._audited.consumer
        shown = group is not None and any(listed.topic_id in t for t in group.targets.values())
        if shown:
            self._committed[name] = listed.topic_id  # so that the targets are searched only once
        return shown

    def _check_tombstone(
        self, tally: Tally, entry: LogEntry, name: str, listed: Topic | None
    ) -> None:
        """A coordinator keeps the offsets of a topic to which a member subscribes, until the topic
        is deleted."""
        audited = self._audited
        group = audited.consumer
        if not (audited.complete and audited.past_gaps):
            tally.add_unverifiable(COMMITS, GROUP_NOT_KNOWN)
        elif group is None or not group.members or name not in group.topic_names():
            tally.add_verified(COMMITS)
        elif listed is None or not self._existed(name, listed):
            tally.add_unverifiable(COMMITS, TOPIC_NOT_PROVEN)
        else:
            tally.add_disagreement(
                COMMITS,
                "deleted_while_subscribed",
                entry,
                "no tombstone, since a member subscribes to the topic and the topic exists",
                f"a tombstone of {name}-{entry.record['key']['data']['partition']}",
                severity=WARNING,
                member="",
            )

    def _check_version(self, tally: Tally, entry: LogEntry) -> None:
        """The value version is that of the release. Without a given release, one that differs from
        the version right before and right after it is wrong: a broker of another release leads
        the partition for longer."""
        assert entry.record["value"] is not None
        number = int(entry.record["value"]["version"])
        if number not in _COMPARED:
            return
        if self._release_given:
            ids = self._audited.releases[-1].offset_topic_ids
            expected = _TOPIC_IDS_FROM if ids else _TOPIC_IDS_FROM - 1
            if number != expected:
                _report_version(tally, entry, expected, number)
            return
        last = self._last
        if len(last) == 2:
            before, odd = last
            term = entry.timestamp - before.entry.timestamp
            if before.number == number != odd.number and 0 <= term < SHORTEST_TERM_MS:
                _report_version(tally, odd.entry, number, odd.number)
        self._last = [*last[-1:], _Version(number, entry)]


def _report_version(tally: Tally, entry: LogEntry, expected: int, recorded: int) -> None:
    tally.add_disagreement(
        COMMITS,
        "value_version",
        entry,
        {"version": expected},
        {"version": recorded},
        severity=WARNING,
        member="",
    )
