"""What an audit knows of a group after one of its records, so that a later audit goes on from there
instead of replaying all records before it.

An audit that goes on gives the verdicts that an audit of all records gives. If it has findings, the
task asks for an audit of all records, which also finds what they follow from. So a group is saved
only if nothing in its records was wrong, and not if it is or was a share or streams group.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

import orjson

from kip848_spark.checks.group import GroupAudit
from kip848_spark.checks.log_entries import LogEntry
from kip848_spark.checks.state import Reference
from kip848_spark.checks.topics import Proven
from kip848_spark.coordinator.classic_group import ClassicGroup
from kip848_spark.coordinator.records import Json
from kip848_spark.coordinator.releases import RELEASES, Release
from kip848_spark.coordinator.saved_group import load_group, load_topics, save_group, save_topics
from kip848_spark.coordinator.share_group import ShareGroup
from kip848_spark.coordinator.streams_group import StreamsGroup
from kip848_spark.version import __version__

MOST_BYTES = 16_000_000
"""A group whose state takes more is not saved."""
_RULES = ("kip848_spark.checks", "kip848_spark.coordinator", "kip848_spark.wire")
"""The packages on which the verdicts of an audit depend."""


@cache
def rules_id() -> str:
    """A hash of the program's rules: an audit by other rules must not go on from a saved one."""
    digest = hashlib.sha256(__version__.encode())
    for package in _RULES:
        for name, code in _sources(files(package), package):
            digest.update(f"{name} {len(code)}\n".encode() + code)
    return digest.hexdigest()[:16]


def _sources(folder: Traversable, path: str) -> Iterator[tuple[str, bytes]]:
    """The name and content of each module in a package, also in one that is shipped as a zip."""
    for found in sorted(folder.iterdir(), key=lambda one: one.name):
        name = f"{path}/{found.name}"
        if found.is_dir():
            yield from _sources(found, name)
        elif name.endswith(".py"):
            yield name, found.read_bytes()


def save_audit(audit: GroupAudit) -> str | None:
    """The state of an audit without the operation at hand, of which further records may follow.
    None if an audit cannot go on from there. Call this before `GroupAudit.finish`."""
    if not audit.is_clean or not audit.checked:
        return None
    audited = audit.audited
    references = [audit.reference]
    if audited.reference is not audit.reference:
        references.append(audited.reference)
    saved_references = [_save_reference(reference) for reference in references]
    if None in saved_references:
        return None
    prover, hash_ = audited.prover, audit.hashes.last
    saved = orjson.dumps(
        {
            "checked": [[entry.offset, entry.timestamp] for entry in audit.checked],
            "releases": _names(audited.releases),
            "by_log": _names(audit.by_log),
            "judged_by": _names(audit.judged_by),
            "past_gaps": audited.past_gaps,
            "complete": audited.complete,
            "generation": audited.generation,
            "seen": sorted(audited.seen),
            "keys_after_gap": sorted(audit.keys_after_gap),
            "owned": {member: sorted(owned) for member, owned in audited.owned.items()},
            "owners": [[*partition, member] for partition, member in audited.owners.items()],
            "proven": _save_proven(prover.proven),
            "proven_last": _save_proven(prover.last),
            "proven_hashes": [
                [hash_, sorted(names), _save_proven(topics)]
                for (hash_, names), topics in prover.found.items()
            ],
            "rackless": prover.rackless,
            "hash": hash_ and [sorted(hash_[0]), _save_proven(hash_[1])],
            "default_targets": audited.default_targets.verified,
            "references": saved_references,
        }
    )
    return saved.decode() if len(saved) <= MOST_BYTES else None


def resume_audit(audit: GroupAudit, saved: str | bytes) -> int:
    """Brings a new ``audit`` to the state that `save_audit` has saved. Returns the offset of the
    last record before it. Raises KeyError, TypeError or ValueError for anything else."""
    state = orjson.loads(saved)
    audited = audit.audited
    audited.set_releases(_releases(state["releases"]))
    audit.by_log, audit.judged_by = _releases(state["by_log"]), _releases(state["judged_by"])
    audited.past_gaps, audited.complete = state["past_gaps"], state["complete"]
    audited.generation = state["generation"]
    audited.seen = set(map(tuple, state["seen"]))
    audit.keys_after_gap = set(map(tuple, state["keys_after_gap"]))
    audited.owned = {m: frozenset(map(tuple, owned)) for m, owned in state["owned"].items()}
    audited.owners = {(topic, number): m for topic, number, m in state["owners"]}
    prover = audited.prover
    prover.proven, prover.last = _proven(state["proven"]), _proven(state["proven_last"]) or {}
    prover.found = {
        (hash_, frozenset(names)): _proven(topics) or {}
        for hash_, names, topics in state["proven_hashes"]
    }
    prover.rackless = state["rackless"]
    if state["hash"] is not None:
        names, topics = state["hash"]
        audit.hashes.last = frozenset(names), _proven(topics) or {}
    audited.default_targets.verified = state["default_targets"]
    whole, *started_over = state["references"]
    _load_reference(audit.reference, whole)
    for one in started_over:
        audited.reference = Reference(audit.group_id, audited.releases)
        _load_reference(audited.reference, one)
    # Of the records only the places are needed.
    places = ((audit.partition, offset, millis) for offset, millis in state["checked"])
    audit.resume_after([LogEntry(*at, {}, "", audit.group_id, "", None) for at in places])
    return audit.checked[-1].offset


def _save_reference(reference: Reference) -> Json | None:
    """A group as the reference has replayed it; None if it can't be saved."""
    group = reference.shard.groups.get(reference.group_id)
    if isinstance(group, ShareGroup | StreamsGroup):
        return None
    if isinstance(group, ClassicGroup) and group.simple:
        return None  # a later audit is not given the commit that created it
    saved = None if group is None else save_group(group)
    if group is not None and saved is None:
        return None
    return {"group": saved, "recorded": sorted(reference.recorded), "fault": reference.fault}


def _load_reference(reference: Reference, saved: Json) -> None:
    reference.recorded.update(saved["recorded"])
    reference.fault = saved["fault"]
    if saved["group"] is not None:
        shard, group_id = reference.shard, reference.group_id
        shard.groups[group_id] = load_group(group_id, saved["group"], shard.release)


def _names(releases: Iterable[Release]) -> list[str]:
    return [release.name for release in releases]


def _releases(names: Iterable[str]) -> tuple[Release, ...]:
    return tuple(RELEASES[name] for name in names)


def _save_proven(topics: Proven | None) -> list[Any] | None:
    return None if topics is None else save_topics(topics.values())


def _proven(saved: Iterable[Any] | None) -> Proven | None:
    return None if saved is None else {topic.name: topic for topic in load_topics(saved)}
