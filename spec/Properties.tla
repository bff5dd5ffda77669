---------------------------- MODULE Properties -----------------------------
(***************************************************************************)
(* What holds in every group.  C1 to C12 are the invariants of             *)
(* docs/kafka-facts.md#invariants, as far as this model has what they are  *)
(* about.                                                                  *)
(***************************************************************************)
EXTENDS ConsumerGroup

Current == group.current
Target == group.target

(* Records of the last step: those of one key, and their values *)
Written(key) == {i \in DOMAIN step'.records : step'.records[i].key = key}
Value(i) == step'.records[i].value

(* C1: the group epoch rises by one. *)
C1_GroupEpochRisesByOne ==
    [][\A i \in Written(3) : Value(i).epoch = group.epoch + 1]_vars

(* C2: member epoch <= assignment epoch <= group epoch. *)
C2_EpochsAreOrdered ==
    /\ group.targetEpoch <= group.epoch
    /\ \A m \in DOMAIN Current : Current[m].epoch <= group.targetEpoch

(* C3: a target is computed for the current group epoch, once. *)
C3_TargetsAreOfTheGroupEpoch ==
    [][\A i \in Written(6) : Value(i) = group'.epoch /\ Value(i) > group.targetEpoch]_vars

(* C4: whenever a target is written, all members have one, and no partition is in two. *)
C4_TargetsAreDisjoint ==
    /\ \A m, n \in DOMAIN Target : m # n => Target[m] \cap Target[n] = {}
    /\ DOMAIN Target \subseteq group.members
C4_AllMembersHaveTargets ==
    [][Written(6) # {} => DOMAIN Target' = group'.members]_vars

(* C5: a member epoch does not decrease, but for a static leave. *)
C5_MemberEpochsRise ==
    [][\A m \in DOMAIN Current \cap DOMAIN Current' :
          \/ Current'[m].epoch >= Current[m].epoch
          \/ Current'[m].epoch = StaticLeave
          \/ \E i \in Written(8) : step'.records[i].deleted /\ step'.records[i].member = m]_vars

(* C6: the previous member epoch is the epoch of the record before. *)
C6_PreviousEpochIsTheLast ==
    [][\A m \in DOMAIN Current \cap DOMAIN Current' :
          \/ Current'[m] = Current[m]
          \/ Current'[m].previous = Current[m].epoch
          \/ Current'[m].epoch = StaticLeave /\ Current'[m].previous = Current[m].previous
          \/ \E i \in Written(8) : step'.records[i].deleted /\ step'.records[i].member = m]_vars

(* C7: partitions pending revocation, and the state that says so. *)
C7_PendingMeansUnrevoked ==
    \A m \in DOMAIN Current :
        LET c == Current[m]
        IN  /\ c.assigned \cap c.pending = {}
            /\ c.pending # {} => c.state = "UNREVOKED_PARTITIONS"
            /\ c.state = "UNREVOKED_PARTITIONS" /\ c.epoch > 0 => c.pending # {}

(* C8: no partition has two owners. *)
C8_NoPartitionHasTwoOwners ==
    \A m, n \in DOMAIN Current : m # n => Held(Current[m]) \cap Held(Current[n]) = {}

(* C9: a member gains partitions of its target only, and revokes only what it had. *)
C9_GainsComeFromTheTarget ==
    [][\A m \in DOMAIN Current \cap DOMAIN Current' :
          /\ Current'[m].assigned \subseteq Current[m].assigned \cup TargetOf(group', m)
          /\ Current'[m].pending \subseteq Held(Current[m])]_vars

(* C10: a stable member at the assignment epoch has its target. *)
C10_StableMembersHaveTheirTarget ==
    \A m \in DOMAIN Current :
        Current[m].state = "STABLE" /\ Current[m].epoch = group.targetEpoch /\ m \in DOMAIN Target
            => Current[m].assigned = Target[m]

(* C11: a member is deleted with its target and its current assignment, which come first; *)
(* whoever is fenced is deleted.                                                          *)
C11_MembersAreDeletedWhole ==
    /\ DOMAIN Current \cup DOMAIN Target \subseteq group.members
C11_FencedMembersAreDeleted ==
    [][step'.action \in {"EndSession", "SessionTimeout", "RebalanceTimeout"}
          => step'.member \notin group'.members]_vars

(* C12: no partition was assigned at a later epoch than the member has reached. *)
C12_PartitionsWereAssignedBefore ==
    \A m \in DOMAIN Current :
        \A p \in DOMAIN Current[m].gained :
            Current[m].epoch = 0 \/ Current[m].gained[p] <= Max(Current[m].epoch, 0)

(* Every partition is in a target of the current group epoch. *)
TargetsAreComplete ==
    group.members # {} /\ group.targetEpoch = group.epoch
        => UNION {TargetOf(group, m) : m \in group.members} = 0 .. group.known - 1

(* A heartbeat is accepted at the member's epoch or the one before (KIP "Request Handling"). *)
EpochsAreChecked ==
    [][\A m \in Members :
          wire[m].type = "request" /\ wire'[m].type = "answer" /\ wire'[m].error = "NONE"
              => \/ wire[m].epoch \in {CurrentOf(group, m).epoch, CurrentOf(group, m).previous}
                 \/ wire[m].epoch = Join /\ (JoinIsNeverFenced \/ m \notin group.members)
         ]_vars

-----------------------------------------------------------------------------
(* Clients *)

IsMember(m) == IsUp(m) /\ m \in group.members

(* No two clients that are members consume the same partition (KIP "Rebalance Process"). *)
(* A client that was fenced and does not know yet is no member.                          *)
NoPartitionIsConsumedTwice ==
    \A m, n \in Members :
        m # n /\ IsMember(m) /\ IsMember(n) => client[m].owned \cap client[n].owned = {}

(* What a member consumes, the coordinator counts as owned by it. *)
ConsumedPartitionsAreOwned ==
    \A m \in Members : IsMember(m) => client[m].owned \subseteq Held(CurrentOf(group, m))

(* No commit of a partition is accepted from who does not own it (KIP "OffsetCommit API"). *)
CommitsComeFromOwners ==
    commit # None /\ CommitIsAccepted(group, commit)
        => commit.partition \in Held(CurrentOf(group, commit.member))

NoCommitIsForAnotherOwner ==
    commit # None /\ CommitIsAccepted(group, commit)
        => Owners(group, commit.partition) \subseteq {commit.member}

-----------------------------------------------------------------------------
(* Convergence: once perturbations stop, every client that runs is a member, all members are *)
(* stable at the group epoch, and every partition is consumed (KIP "Consumer Group States").  *)
Converged ==
    /\ group.members = {m \in Members : IsUp(m)}
    /\ group.members # {} =>
          /\ group.targetEpoch = group.epoch
          /\ UNION {client[m].owned : m \in group.members} = 0 .. partitions - 1
    /\ \A m \in group.members :
          /\ CurrentOf(group, m).state = "STABLE" /\ CurrentOf(group, m).epoch = group.epoch
          /\ client[m].epoch = group.epoch
          /\ client[m].owned = TargetOf(group, m)

Convergence == <>[]Converged

(* The same as a property of single states, which finds faults sooner: when no client and no *)
(* message can change anything any more, the group has converged.                             *)
IsQuiet ==
    /\ late = None
    /\ \A m \in Members :
          /\ wire[m] = Idle
          /\ IsUp(m) => client[m].applied /\ ~IsDue(m)
          /\ ~SessionEnds(m)

QuietGroupsHaveConverged == IsQuiet => Converged
=============================================================================
