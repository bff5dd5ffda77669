"""Checks the epochs of a streams group, and that a new epoch has a cause
(docs/kafka-facts.md#streams-groups)."""

from __future__ import annotations

from typing import Any

from kip848_spark.checks.log_entries import LogEntry
from kip848_spark.checks.operations import INVALID_ORDER, LEAVE, REJOIN
from kip848_spark.checks.results import CAUSES, EPOCHS, GAP
from kip848_spark.checks.streams_operations import StreamsPart
from kip848_spark.checks.streams_state import AuditedStreams, has_configs
from kip848_spark.coordinator import streams_group as streams

_BUMPING_STATIC = ("topologyEpoch", "rackId", "clientTags", "processId")
"""What a static member may not change without a new epoch."""


def begins_anew(audited: AuditedStreams, part: StreamsPart) -> bool:
    """Whether a part begins a group anew without tombstones: a classic JoinGroup has made the
    coordinator forget an empty group (docs/kafka-facts.md#epoch-restarts-without-a-tombstone)."""
    group, joins, bumps = audited.group, part.of(streams.MEMBER), part.of(streams.GROUP)
    if not (audited.complete and joins and bumps and group.epoch) or group.members:
        return False
    epoch = (bumps[0].value or {})["epoch"]
    return bool(part.of(streams.TOPOLOGY)) and epoch in (1, 2) and epoch != group.epoch + 1


def check_group_epoch(audited: AuditedStreams, entry: LogEntry) -> None:
    """Checks a value of key 17: the epoch is one higher, and the topology is one that is known."""
    assert entry.value is not None
    epoch, group = entry.value["epoch"], audited.group
    known = (streams.GROUP, "") in audited.seen
    if not known and not audited.complete:
        audited.tally.add_unverifiable(EPOCHS, GAP)
        return
    wanted = group.epoch + 1
    if not known:
        wanted = 2 if has_configs(entry) else 1
    if epoch != wanted and not (known and _only_describes(audited, entry)):
        audited.tally.add_disagreement(EPOCHS, "group_epoch", entry, wanted, epoch)
        return
    validated = entry.value.get("validatedTopologyEpoch")
    if validated not in (None, streams.NO_TOPOLOGY) and audited.knows(streams.TOPOLOGY):
        topology = (group.topology or {}).get("epoch")
        if validated != topology:
            audited.tally.add_disagreement(EPOCHS, "validated_topology", entry, topology, validated)
            return
    audited.tally.add_verified(EPOCHS)


def _only_describes(audited: AuditedStreams, entry: LogEntry) -> bool:
    """Whether a value of key 17 only says which description of the topology is stored (4.4)."""
    value, group = entry.value or {}, audited.group
    return (
        value["epoch"] == group.epoch
        and streams.descriptions_of(value) != group.descriptions
        and not _changes(audited, value)
    )


def check_target_epoch(audited: AuditedStreams, entry: LogEntry) -> None:
    """Checks a value of key 20: a target is computed for the newest epoch, and only once."""
    assert entry.value is not None
    group, epoch = audited.group, entry.value["assignmentEpoch"]
    if not audited.knows(streams.GROUP):
        audited.tally.add_unverifiable(EPOCHS, GAP)
        return
    again = (streams.TARGET_EPOCH, "") in audited.seen and epoch <= group.target_epoch
    if epoch == group.epoch and not again:
        audited.tally.add_verified(EPOCHS)
        return
    reason = "target_again" if epoch == group.epoch else "target_epoch"
    audited.tally.add_disagreement(EPOCHS, reason, entry, group.epoch, epoch)


def check_member_epoch(audited: AuditedStreams, entry: LogEntry) -> None:
    """Checks the epochs in a value of key 22."""
    assert entry.value is not None
    epoch, previous = entry.value["memberEpoch"], entry.value["previousMemberEpoch"]
    group, seen = audited.group, (streams.CURRENT, entry.member) in audited.seen
    if not (audited.complete or (seen and (streams.TARGET_EPOCH, "") in audited.seen)):
        audited.tally.add_unverifiable(EPOCHS, GAP)
        return
    if epoch <= 0:  # a static member that left temporarily, or rejoined
        audited.tally.add_verified(EPOCHS)
        return
    member = group.members.get(entry.member)
    before = member.epoch if member is not None and seen else None
    target = max(group.target_epoch, 1)  # the first epoch of a group that has no target yet
    least = max(before or 0, 0)
    if least <= epoch <= target and (before is None or before <= 0 or previous == before):
        audited.tally.add_verified(EPOCHS)
        return
    audited.tally.add_disagreement(
        EPOCHS,
        "member_epochs",
        entry,
        {"least": least, "target": target, "previous": before},
        {"memberEpoch": epoch, "previousMemberEpoch": previous},
    )


def check_causes(audited: AuditedStreams, part: StreamsPart) -> None:
    """Checks that a new epoch has a cause, and that a cause comes with a new epoch. Call this
    before the part is replayed."""
    if part.name in (INVALID_ORDER, REJOIN):
        return
    bumps = part.of(streams.GROUP)
    if part.name == LEAVE:
        _check_leave(audited, bumps[0])
        return
    changed = [entry for entry in part.of(streams.MEMBER) if _must_bump(audited, entry)]
    if not bumps:
        if changed:
            audited.tally.add_disagreement(
                CAUSES,
                "no_new_epoch",
                changed[0],
                "a record of key 17 in the same operation",
                {"causes": ["a member joined or changed"]},
            )
        return
    bump = bumps[0]
    assert bump.value is not None
    if changed or any(_changes_anything(audited, entry) for entry in part.of(streams.MEMBER)):
        audited.tally.add_verified(CAUSES)
    elif (streams.GROUP, "") not in audited.seen:
        reason = CAUSES if audited.complete else GAP
        audited.tally.add_unverifiable(CAUSES, reason)
    elif _changes(audited, bump.value) or _only_describes(audited, bump) or restores(audited, part):
        audited.tally.add_verified(CAUSES)
    else:
        audited.tally.add_disagreement(
            CAUSES,
            "no_cause",
            bump,
            "a cause in the same operation",
            {"epoch": bump.value["epoch"], "causes": []},
        )


def restores(audited: AuditedStreams, part: StreamsPart) -> bool:
    """Whether a part gives a member a target back that the coordinator had forgotten (4.4): by a
    new epoch for the target of before, with the time at which that was computed. Call this before
    the part is replayed."""
    if not audited.any_release(lambda release: release.streams_static_members):
        return False
    ends, before = part.of(streams.TARGET_EPOCH), audited.group.target_timestamp
    if not (before and ends) or part.of(streams.TARGET) or part.of(streams.MEMBER):
        return False
    return bool((ends[-1].value or {}).get("assignmentTimestamp") == before)


def _changes(audited: AuditedStreams, value: dict[str, Any]) -> dict[str, Any]:
    """What a value of key 17 changes beside the epoch."""
    group = audited.group
    validated = value.get("validatedTopologyEpoch")
    pairs = {
        "hash": (group.metadata_hash, value.get("metadataHash") or 0),
        "validated topology epoch": (group.validated_epoch, -1 if validated is None else validated),
        "assignment settings": (group.configs, streams.configs_of(value)),
    }
    return {name: after for name, (before, after) in pairs.items() if before != after}


def _check_leave(audited: AuditedStreams, bump: LogEntry) -> None:
    """When members leave, the new epoch is all that changes. Before 4.2, the hash is lost."""
    assert bump.value is not None
    if (streams.GROUP, "") not in audited.seen:
        audited.tally.add_unverifiable(CAUSES, GAP)
        return
    changes = _changes(audited, bump.value)
    lost = audited.any_release(lambda release: not release.streams_configs)
    if lost and not has_configs(bump) and changes.get("hash", 0) == 0:
        changes.clear()
    if not changes:
        audited.tally.add_verified(CAUSES)
        return
    group = audited.group
    before = {
        "hash": group.metadata_hash,
        "validated topology epoch": group.validated_epoch,
        "assignment settings": group.configs,
    }
    audited.tally.add_disagreement(
        CAUSES,
        "changed_by_leaving",
        bump,
        {name: _shown(before[name]) for name in changes},
        {name: _shown(value) for name, value in changes.items()},
    )


def _shown(value: Any) -> Any:
    if isinstance(value, dict):
        return [f"{name}={value[name]}" for name in sorted(value)]
    return value


def _changes_anything(audited: AuditedStreams, entry: LogEntry) -> bool:
    member = audited.member(entry.member)
    return member is None or member.metadata != entry.value


def _must_bump(audited: AuditedStreams, entry: LogEntry) -> bool:
    """Whether a value of key 19 requires a new epoch in the same operation."""
    value, member = entry.value or {}, audited.member(entry.member)
    if value.get("instanceId") is None:
        return member is None or member.metadata != value
    if member is None or entry.key not in audited.seen:
        return audited.complete
    return any(member.metadata.get(name) != value.get(name) for name in _BUMPING_STATIC)
