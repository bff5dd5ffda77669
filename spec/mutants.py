"""The mutants of the reference coordinator as mutants of the model.

The names are those of ``tests/coordinator/mutants.py``.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from spec.tlc import FOLDER, Outcome, check


class Mutant(NamedTuple):
    """A broken rule: a definition of `Coordinator.tla`, and what takes its place."""

    rule: str
    replacement: str
    breaks: str
    """The property that TLC finds violated."""
    release: str = "4.3"


MUTANTS: dict[str, Mutant] = {
    "assigns partitions that others still own": Mutant(
        "IsFree", "FreeAlways", "C8_NoPartitionHasTwoOwners"
    ),
    "removes partitions without revoking": Mutant(
        "Acknowledged", "AcknowledgedAlways", "ConsumedPartitionsAreOwned"
    ),
    "bumps by two": Mutant("NextEpoch", "BumpByTwo", "C1_GroupEpochRisesByOne"),
    "writes the previous target epoch": Mutant(
        "EpochOfTarget", "PreviousTargetEpoch", "C3_TargetsAreOfTheGroupEpoch"
    ),
    "never reconciles": Mutant("ReconcileRecords", "NeverReconciles", "QuietGroupsHaveConverged"),
    "never finishes a revocation": Mutant(
        "ReconcileRecords", "KeepsPending", "QuietGroupsHaveConverged"
    ),
    "exceeds the target epoch": Mutant("ReconcileRecords", "EpochAhead", "C2_EpochsAreOrdered"),
    "decreases the epoch": Mutant(
        "ReconcileRecords", "EpochBack", "C12_PartitionsWereAssignedBefore"
    ),
    "assigns a partition twice": Mutant("Targets", "TakesAll", "C4_TargetsAreDisjoint"),
    "leaves partitions unassigned": Mutant("Targets", "ForgetsAPartition", "TargetsAreComplete"),
    "writes no tombstones": Mutant(
        "MemberTombstones", "NoTombstones", "C11_FencedMembersAreDeleted"
    ),
    "does not bump when a member leaves": Mutant(
        "BumpAfterRemoval", "NoBump", "TargetsAreComplete"
    ),
    "ignores topic changes": Mutant("BumpRecords", "NeverBumps", "QuietGroupsHaveConverged"),
    "never computes a target": Mutant("MustCompute", "NeverComputes", "QuietGroupsHaveConverged"),
    "loses the previous epoch": Mutant("At", "ForgetsWhereItWas", "C6_PreviousEpochIsTheLast"),
    "writes later assignment epochs": Mutant(
        "GainedAt", "GainedLater", "C12_PartitionsWereAssignedBefore"
    ),
    "writes a target twice": Mutant(
        "BumpRecords", "RepeatsTheTarget", "C3_TargetsAreOfTheGroupEpoch"
    ),
    "accepts any epoch": Mutant(
        "EpochIsAccepted",
        "AcceptsAnyEpoch",
        "EpochsAreChecked",
        release="4.1",  # where a client that joins again with its old id is fenced
    ),
}


def check_mutant(name: str, folder: Path) -> Outcome:
    """Check the model of two members with one broken rule; ``folder`` is for its configuration."""
    mutant = MUTANTS[name]
    model = (FOLDER / "TwoMembers.cfg").read_text(encoding="utf-8")
    model = model.replace(', "interval"', "")  # a script has no assignment interval
    model = model.replace('"4.3"', f'"{mutant.release}"')
    config = folder / "mutant.cfg"
    config.write_text(
        f"{model}CONSTANTS\n    {mutant.rule} <- {mutant.replacement}\n", encoding="utf-8"
    )
    return check(config, module="Mutants", seconds=300)
