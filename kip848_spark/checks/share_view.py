"""A share group under audit: its state as the reference replays it, and how much is known of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from kip848_spark.checks import release as releases
from kip848_spark.checks.audited_group import DefaultTargets
from kip848_spark.checks.log_entries import LogEntry
from kip848_spark.checks.results import Tally
from kip848_spark.checks.saved_values import SavedGroups
from kip848_spark.checks.stateful import Stateful
from kip848_spark.checks.topics import KnownTopics
from kip848_spark.coordinator.partition_state import PartitionState
from kip848_spark.coordinator.releases import Release
from kip848_spark.coordinator.replay import replay
from kip848_spark.coordinator.share_group import (
    SHARE_CURRENT,
    SHARE_GROUP,
    SHARE_MEMBER,
    SHARE_STATE,
    SHARE_TARGET,
    SHARE_TARGET_EPOCH,
    ShareGroup,
    ShareMember,
)


class ShareView(Stateful):
    """The state of one share group, with the keys that were read since the last gap."""

    STATE = (
        "releases", "complete", "_release", "_names", "_seen", "target_hash", "existing",
        "_hash_changed",
    )  # fmt: skip

    def __init__(self, group_id: str, topics: KnownTopics, candidates: tuple[Release, ...]) -> None:
        self.group_id = group_id
        allowed = tuple(release for release in candidates if release.share_groups)
        self.releases = allowed or tuple(r for r in releases.ALL if r.share_groups)
        self.tally = Tally()
        self.complete = True
        """True if all of the group was read: what is not in the state does not exist."""
        self.default_targets = DefaultTargets()
        """Targets, of which none says which assignor has computed it."""
        self._topics = topics
        self._names: dict[str, str] = {}
        self._clear()

    def _clear(self) -> None:
        self._state = PartitionState(self.releases[-1])
        self._seen: set[tuple[str, str]] = set()
        self.target_hash: int | None = None
        """The metadata hash of the last target."""
        self.existing: Mapping[str, str] | None = None
        """Name -> id of the subscribed topics that exist, by the group's newest metadata hash; None
        if the hash does not tell."""
        self._hash_changed = True

    def forget(self) -> None:
        """Records may be missing here: nothing is known of the group any more."""
        self.complete = False
        self._clear()

    def narrow(self, entries: Iterable[LogEntry]) -> None:
        """Leaves out releases that could not have written the records of a part: a target with a
        time was computed by 4.3 or later, one without by an earlier release, and the last member
        leaves a target behind from 4.4 on."""
        gone = {e.member for e in entries if e.kind == SHARE_CURRENT and e.value is None}
        targets = [e.value for e in entries if e.kind == SHARE_TARGET_EPOCH and e.value]
        if gone:
            if self.complete and self.members.keys() <= gone:
                self._keep({r for r in releases.ALL if r.empties_target == bool(targets)})
        elif targets and self.members:
            timed = bool(targets[0].get("assignmentTimestamp"))
            self._keep({r for r in releases.ALL if r.assignment_interval == timed})

    def _keep(self, wrote: set[Release]) -> None:
        """Keeps the releases that may have written a record. If none could, the cluster was up- or
        downgraded: then all that could."""
        allowed = tuple(r for r in releases.ALL if r.share_groups and r in wrote)
        self.releases = tuple(r for r in self.releases if r in allowed) or allowed

    # The group's state

    @property
    def _release(self) -> Release:
        return self._state.release

    @_release.setter
    def _release(self, release: Release) -> None:
        self._state.release = release

    def parts(self) -> Iterator[Stateful]:
        """See `GroupAudit.parts`."""
        yield from (self, SavedGroups(self._state), self.default_targets)

    @property
    def group(self) -> ShareGroup | None:
        """The group; None if there is none."""
        group = self._state.groups.get(self.group_id)
        return group if isinstance(group, ShareGroup) else None

    @property
    def members(self) -> Mapping[str, ShareMember]:
        """The members by id."""
        return self.group.members if self.group is not None else {}

    @property
    def targets(self) -> Mapping[str, Mapping[str, dict[int, None]]]:
        """The targets by member id."""
        return self.group.targets if self.group is not None else {}

    def has_record(self, kind: str, member: str = "") -> bool:
        """Whether the newest record of this key was read, and is no tombstone."""
        return (kind, member) in self._seen

    def knows(self, kind: str, member: str = "") -> bool:
        """Whether the state holds the newest record of this key, or no such record exists."""
        return self.complete or (kind, member) in self._seen

    def name_of(self, topic_id: str) -> str | None:
        """The name of a topic; None if it is not known."""
        return self._names.get(topic_id) or self._topics.name_of(topic_id)

    @property
    def topics_changed(self) -> bool:
        """Whether topics were changed since the last target."""
        changed = self.group is None or self.group.metadata_hash != self.target_hash
        return changed or self._hash_changed

    def apply(self, entry: LogEntry) -> None:
        """Replays a record. Raises ReplayError where a broker would."""
        if entry.value is not None and entry.kind == SHARE_STATE:
            for part in ("initializingTopics", "initializedTopics"):
                for row in entry.value[part]:
                    self._names[row["topicId"]] = row["topicName"]
        replay(self._state, entry.record, entry.offset)
        (self._seen.discard if entry.value is None else self._seen.add)(entry.key)
        if entry.kind == SHARE_MEMBER and entry.value is None:
            gone = (SHARE_MEMBER, SHARE_TARGET, SHARE_CURRENT)
            self._seen.difference_update((kind, entry.member) for kind in gone)
        if entry.kind == SHARE_TARGET_EPOCH and self.group is not None:
            self._hash_changed = self.group.metadata_hash != self.target_hash
            self.target_hash = self.group.metadata_hash
        if entry.kind == SHARE_GROUP and entry.value is None:
            self._clear()
