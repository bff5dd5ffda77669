"""What an audit knows of a group after one of its records, so that a later audit goes on from there
instead of replaying all records before it.

An audit that goes on gives the verdicts that an audit of all records gives. If it has findings, the
task asks for an audit of all records, which also finds what they follow from. So a group is saved
only if nothing in its records was wrong.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

import orjson

from kip848_spark.checks.group import GroupAudit
from kip848_spark.checks.log_entries import LogEntry
from kip848_spark.checks.saved_values import decode, encode
from kip848_spark.coordinator.classic_group import ClassicGroup
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
    for reference in (audit.reference, audit.audited.reference):
        group = reference.shard.groups.get(audit.group_id)
        if isinstance(group, ClassicGroup) and group.simple:
            return None  # a later audit is not given the commit that created it
    try:
        state = {
            "checked": [[entry.offset, entry.timestamp] for entry in audit.checked],
            "parts": audit.part_names,
            "state": [[encode(getattr(p, name)) for name in p.STATE] for p in audit.parts()],
        }
        saved = orjson.dumps(state)
    except TypeError:  # a damaged record may have a value that is no JSON
        return None
    return saved.decode() if len(saved) <= MOST_BYTES else None


def resume_audit(audit: GroupAudit, saved: str | bytes) -> int:
    """Brings a new ``audit`` to the state that `save_audit` has saved. Returns the offset of the
    last record before it. Raises an exception if ``saved`` is anything else."""
    state = orjson.loads(saved)
    audit.begin_parts(state["parts"])
    for part, values in zip(audit.parts(), state["state"], strict=True):
        for name, value in zip(part.STATE, values, strict=True):
            setattr(part, name, decode(value))
    # Of the records only the places are needed.
    places = ((audit.partition, offset, millis) for offset, millis in state["checked"])
    audit.resume_after([LogEntry(*at, {}, "", audit.group_id, "", None) for at in places])
    return audit.checked[-1].offset
