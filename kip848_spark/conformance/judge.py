"""Whether a trace is a behaviour of the model's coordinator (``spec/Conformance.tla``).

The state of the model is the replay of the records, so all that is hidden between two records is
where operations begin and end, and that an empty group may have been forgotten. The search keeps
every place that a sequence of operations can have reached: its cost is linear in the records.
"""

from __future__ import annotations

from typing import NamedTuple

from kip848_spark.conformance.group import ModelGroup, Rules
from kip848_spark.conformance.log_matcher import Allowed, LogMatcher
from kip848_spark.conformance.operations import operation_ends
from kip848_spark.conformance.records import RELEASES, Trace, TraceRecord


class Verdict(NamedTuple):
    """What the model says of a trace. ``read``: how many records operations of the model write.
    ``at``: the first record that none has (None if the trace conforms); ``allowed``: what the model
    allows instead of it."""

    release: str
    read: int
    at: int | None = None
    allowed: tuple[Allowed, ...] = ()

    @property
    def conforms(self) -> bool:
        """Whether every record is one of the model's."""
        return self.at is None


def judge(trace: Trace, release: str | None = None) -> Verdict:
    """The verdict on a trace, by the model of ``release`` ("4.3", ...). Without one, a trace
    conforms if it is a behaviour of one release that may have written its fields; otherwise the
    verdict is that of the release that gets furthest.
    """
    names = (release,) if release is not None else trace.releases or RELEASES
    best: Verdict | None = None
    for name in names:
        verdict = _judge(trace.records, name)
        if verdict.conforms:
            return verdict
        if best is None or verdict.read > best.read:
            best = verdict
    assert best is not None
    return best


def _judge(log: tuple[TraceRecord, ...], release: str) -> Verdict:
    rules = Rules(release)
    # Where operations may begin, and since which record the group has not been forgotten.
    reached: dict[int, set[int]] = {0: {0}}
    groups: dict[int, ModelGroup] = {0: ModelGroup(rules)}
    last, furthest = 0, 0
    allowed: list[Allowed] = []
    for at, record in enumerate(log):
        since = reached.pop(at, set())
        if since:
            last = at
        # An empty group may be forgotten (docs/kafka-facts.md#epoch-restarts-without-a-tombstone).
        if any(_may_be_forgotten(groups[start]) for start in since):
            groups[at] = ModelGroup(rules)
            since = {*since, at}
        for start in since:
            matcher = LogMatcher(rules, groups[start], log, at)
            for end in operation_ends(matcher):
                reached.setdefault(end, set()).add(start)
            if matcher.furthest > furthest or (furthest == matcher.furthest == at):
                furthest, allowed = matcher.furthest, []
            if matcher.furthest == furthest:
                allowed += matcher.allowed
        if not reached:
            break
        needed = set().union(*reached.values())
        groups = {start: group for start, group in groups.items() if start in needed}
        for group in groups.values():
            group.replay((record,))
    if len(log) in reached or not log:
        return Verdict(release, len(log))
    place = min(max(furthest, last), len(log) - 1)
    unique = {repr(one): one for one in (allowed if furthest >= last else [])}
    return Verdict(release, last, place, tuple(unique.values()))


def _may_be_forgotten(group: ModelGroup) -> bool:
    return not group.members and group.generation < 0 and not group.is_empty
