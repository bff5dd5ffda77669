"""How much of each thing a capture holds, counted from Kafka's own reading of it."""

from __future__ import annotations

from dataclasses import dataclass

from tests.audit.captured_logs import entries


@dataclass(frozen=True)
class Counted:
    """Records that an audit must come to a verdict on, those of upgrades told apart."""

    assignments: int
    targets: int
    bumps: int
    hashes: int
    upgrades: int


def counted(release: str) -> Counted:
    """Values of keys 8, 6 and 3, less those by which a group was converted: an upgrade writes one
    key 3 and 6, without a time, and a key 8 a member whose two epochs are the same."""
    log = entries(release)
    starts = [
        i
        for i, e in enumerate(log)
        if e.kind == "2"
        and e.value is None
        and (log[i + 1].kind, log[i + 1].group) == ("5", e.group)
    ]
    converted = 0
    for start in starts:
        at = start + 1
        while log[at].kind != "6":
            at += 1
        while log[at + 1].kind == "8" and (value := log[at + 1].value) is not None:
            converted += value["memberEpoch"] == value["previousMemberEpoch"]
            at += 1
    values = [e for e in log if e.value is not None]
    threes = [e.value or {} for e in values if e.kind == "3"]
    return Counted(
        assignments=sum(e.kind == "8" for e in values) - converted,
        targets=sum(e.kind == "6" for e in values) - len(starts),
        bumps=len(threes) - len(starts),
        # a hash of 0 tells 4.1 and 4.2 apart from 4.0, which has none, only if others have one
        hashes=len(threes)
        if release.startswith("4.3")
        else sum(bool(value.get("metadataHash")) for value in threes),
        upgrades=len(starts),
    )
