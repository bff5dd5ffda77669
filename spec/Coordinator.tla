---------------------------- MODULE Coordinator ----------------------------
(***************************************************************************)
(* What the group coordinator of KIP-848 decides: for a group and a        *)
(* request, the records that it writes and the answer that it sends.  All  *)
(* definitions are functions; module ConsumerGroup has the variables.      *)
(*                                                                         *)
(* A group is the replay of its records, as in a broker.  Records are      *)
(* named by their key types in __consumer_offsets:                         *)
(*   3 group epoch       5 member               6 assignment epoch         *)
(*   7 member's target   8 member's current assignment                     *)
(* "KIP" cites a section of KIP-848, "ref" a function of the reference in  *)
(* kip848_spark/coordinator.                                               *)
(***************************************************************************)
EXTENDS Integers, Sequences, FiniteSets, TLC

CONSTANTS
    MemberOrder,  \* the member ids, in the order of the range assignor
    Instance,     \* member id -> instance id; "" for a dynamic member
    Release,      \* "4.0", "4.1", "4.2" or "4.3"
    Assignor      \* "range", or "any": every balanced assignment

Members == {MemberOrder[i] : i \in DOMAIN MemberOrder}

(* How releases differ (ref releases.py) *)
Until41 == Release \in {"4.0", "4.1"}
JoinIsNeverFenced == ~Until41
EpochsAfterRevocation == IF Until41 THEN 1 ELSE 0
HasPartitionEpochs == Release = "4.3"
HasAssignmentInterval == Release = "4.3"
FirstEpoch == IF Release = "4.3" THEN 1 ELSE 0

Join == 0
Leave == -1
StaticLeave == -2

Min(x, y) == IF x < y THEN x ELSE y
Max(x, y) == IF x > y THEN x ELSE y
Without(f, x) == [y \in DOMAIN f \ {x} |-> f[y]]
With(f, x, value) == (x :> value) @@ f

(* Whatever `make` gives for each of these members, in the members' order *)
ForEach(ms, make(_)) ==
    LET chosen == SelectSeq(MemberOrder, LAMBDA m : m \in ms)
    IN  [i \in DOMAIN chosen |-> make(chosen[i])]

RECURSIVE Concatenate(_)
Concatenate(parts) ==
    IF parts = <<>> THEN <<>> ELSE Head(parts) \o Concatenate(Tail(parts))

-----------------------------------------------------------------------------
(* Records, and the group that they describe (KIP "Group Metadata", "Target Assignment", *)
(* "Current Member Assignment"; ref replay.py)                                           *)

Put(key, member, value) == [key |-> key, member |-> member, value |-> value, deleted |-> FALSE]
Tombstone(key, member) == [key |-> key, member |-> member, value |-> 0, deleted |-> TRUE]

Nothing == [epoch |-> 0, previous |-> -1, state |-> "STABLE",
            assigned |-> {}, pending |-> {}, gained |-> <<>>]

EmptyGroup == [epoch |-> FirstEpoch, targetEpoch |-> FirstEpoch, known |-> 0,
               members |-> {}, target |-> <<>>, current |-> <<>>]

ReplayOne(g, r) ==
    CASE r.key = 3 -> [g EXCEPT !.epoch = r.value.epoch, !.known = r.value.partitions]
      [] r.key = 5 -> [g EXCEPT !.members = IF r.deleted THEN @ \ {r.member} ELSE @ \cup {r.member}]
      [] r.key = 6 -> [g EXCEPT !.targetEpoch = r.value]
      [] r.key = 7 -> [g EXCEPT !.target =
                          IF r.deleted THEN Without(@, r.member) ELSE With(@, r.member, r.value)]
      [] r.key = 8 -> [g EXCEPT !.current =
                          IF r.deleted THEN Without(@, r.member) ELSE With(@, r.member, r.value)]

RECURSIVE Replay(_, _)
Replay(g, records) ==
    IF records = <<>> THEN g ELSE Replay(ReplayOne(g, Head(records)), Tail(records))

CurrentOf(g, m) == IF m \in DOMAIN g.current THEN g.current[m] ELSE Nothing
TargetOf(g, m) == IF m \in DOMAIN g.target THEN g.target[m] ELSE {}
Held(c) == c.assigned \cup c.pending

(* A member owns what it is assigned and what it has yet to revoke. *)
Owners(g, p) == {m \in g.members : p \in Held(CurrentOf(g, m))}

-----------------------------------------------------------------------------
(* Group epoch (KIP "Group Epoch - Trigger a rebalance"; ref subscriptions.py) *)

NextEpoch(epoch) == epoch + 1
MetadataChanged(g, partitions) == g.known # partitions
EpochRecord(g, partitions) ==
    <<Put(3, "", [epoch |-> NextEpoch(g.epoch), partitions |-> partitions])>>
BumpRecords(g, isNew, partitions) ==
    IF isNew \/ MetadataChanged(g, partitions) THEN EpochRecord(g, partitions) ELSE <<>>

(* Removing members: by leaving, by a timeout (KIP "Heartbeat & Session"; ref membership.fence) *)
MemberTombstones(m) == <<Tombstone(8, m), Tombstone(7, m), Tombstone(5, m)>>
BumpAfterRemoval(g, partitions) == EpochRecord(g, partitions)
Fence(g, m, partitions) == MemberTombstones(m) \o BumpAfterRemoval(g, partitions)

-----------------------------------------------------------------------------
(* Target assignment (KIP "Assignment Epoch", "Assignment Process"; ref target.py, assignors) *)

Range(ms, partitions) ==
    LET sorted == SelectSeq(MemberOrder, LAMBDA m : m \in ms)
        position == [m \in ms |-> CHOOSE i \in DOMAIN sorted : sorted[i] = m]
        share == partitions \div Cardinality(ms)
        extra == partitions % Cardinality(ms)
        first(i) == (i - 1) * share + Min(i - 1, extra)
    IN  [m \in ms |-> first(position[m]) .. first(position[m] + 1) - 1]

IsBalanced(target, partitions) ==
    /\ UNION {target[m] : m \in DOMAIN target} = 0 .. partitions - 1
    /\ \A m, n \in DOMAIN target :
          m # n => /\ target[m] \cap target[n] = {}
                   /\ Cardinality(target[m]) - Cardinality(target[n]) \in -1 .. 1

Targets(ms, partitions) ==
    IF Assignor = "range"
    THEN {Range(ms, partitions)}
    ELSE {t \in [ms -> SUBSET (0 .. partitions - 1)] : IsBalanced(t, partitions)}

MustCompute(g) == g.targetEpoch < g.epoch
EpochOfTarget(g) == g.epoch

(* Only changed targets are written; a new member's target always is. *)
TargetRecords(g, target) ==
    LET changed == {m \in g.members : m \notin DOMAIN g.target \/ g.target[m] # target[m]}
    IN  ForEach(changed, LAMBDA m : Put(7, m, target[m])) \o <<Put(6, "", EpochOfTarget(g))>>

-----------------------------------------------------------------------------
(* Reconciliation (KIP "Member Epoch - Reconciliation of the group"; ref reconcile.py) *)

IsFree(g, c, p) == Owners(g, p) = {} \/ p \in c.pending
Acknowledged(owned, lost) == owned.reported /\ owned.partitions \cap lost = {}

At(c, epoch, state, assigned, pending, gained) ==
    [epoch |-> epoch, previous |-> c.epoch, state |-> state, assigned |-> assigned,
     pending |-> pending,
     gained |-> [p \in assigned \cup pending |->
                    IF p \in c.assigned THEN c.gained[p] ELSE gained]]

GainedAt(epoch) == IF HasPartitionEpochs THEN epoch ELSE 0

(* Revoke first; with nothing left to revoke, move to the target epoch and take what is free. *)
OneStep(g, m, owned, epoch) ==
    LET c == CurrentOf(g, m)
        target == TargetOf(g, m)
        kept == c.assigned \cap target
        lost == c.assigned \ target
        free == {p \in target \ c.assigned : IsFree(g, c, p)}
        state == IF kept \cup free = target THEN "STABLE" ELSE "UNRELEASED_PARTITIONS"
    IN  IF lost # {} /\ ~Acknowledged(owned, lost)
        THEN At(c, epoch, "UNREVOKED_PARTITIONS", kept, lost, 0)
        ELSE At(c, g.targetEpoch, state, kept \cup free, {}, GainedAt(g.targetEpoch))

Reconcile(g, m, owned) ==
    LET c == CurrentOf(g, m)
    IN  CASE c.state = "STABLE" ->
               IF c.epoch = g.targetEpoch THEN c ELSE OneStep(g, m, owned, c.epoch)
          [] c.state = "UNREVOKED_PARTITIONS" ->
               IF Acknowledged(owned, c.pending)
               THEN OneStep(g, m, owned, Min(c.epoch + EpochsAfterRevocation, g.targetEpoch))
               ELSE c
          [] c.state = "UNRELEASED_PARTITIONS" -> OneStep(g, m, owned, c.epoch)

ReconcileRecords(g, m, owned) ==
    LET after == Reconcile(g, m, owned)
    IN  IF after = CurrentOf(g, m) THEN <<>> ELSE <<Put(8, m, after)>>

-----------------------------------------------------------------------------
(* A heartbeat (KIP "ConsumerGroupHeartbeat API"; ref heartbeat.py, membership.py) *)

(* The epoch must match.  A member that missed the last answer still sends its previous epoch; *)
(* it must not own more than it is assigned (KIP "Request Handling"; ref check_epoch).         *)
EpochIsAccepted(c, request) ==
    \/ request.epoch = Join /\ JoinIsNeverFenced
    \/ request.epoch = c.epoch
    \/ /\ request.epoch < c.epoch
       /\ request.epoch = c.previous
       /\ request.owned.reported
       /\ request.owned.partitions \subseteq c.assigned

Holders(g, m) == {h \in g.members : Instance[h] # "" /\ Instance[h] = Instance[m]}

ErrorOf(g, m, request) ==
    LET holders == Holders(g, m)
        epochError == IF EpochIsAccepted(CurrentOf(g, m), request)
                      THEN "NONE" ELSE "FENCED_MEMBER_EPOCH"
    IN  IF request.epoch = Join /\ holders # {}   \* KIP "Static Membership (KIP-345)"
        THEN IF \A h \in holders : CurrentOf(g, h).epoch = StaticLeave
             THEN "NONE" ELSE "UNRELEASED_INSTANCE_ID"
        ELSE IF m \in g.members
        THEN IF request.epoch < 0 THEN "NONE" ELSE epochError
        ELSE IF holders # {} THEN "FENCED_INSTANCE_ID"
        ELSE IF request.epoch = Join THEN "NONE" ELSE "UNKNOWN_MEMBER_ID"

(* A static member returns: it inherits target and current assignment, at epoch 0 *)
(* (ref membership.replace_member).  Without an instance id, a new member joins.  *)
JoinRecords(g, m, request) ==
    LET holders == IF request.epoch = Join THEN Holders(g, m) ELSE {}
        old == CHOOSE h \in holders : TRUE
    IN  IF holders # {}
        THEN MemberTombstones(old) \o
             <<Put(5, m, ""), Put(7, m, TargetOf(g, old)),
               Put(8, m, [CurrentOf(g, old) EXCEPT !.epoch = 0, !.previous = 0])>>
        ELSE IF m \in g.members THEN <<>> ELSE <<Put(5, m, "")>>

(* The records of a heartbeat that is not refused.  `computes`: whether the assignment interval *)
(* allows a new target (4.3).                                                                   *)
HeartbeatRecords(g, m, request, partitions, computes) ==
    LET joined == JoinRecords(g, m, request)
        g1 == Replay(g, joined)
        isNew == m \notin g.members /\ Holders(g, m) = {}
        bump == BumpRecords(g1, isNew, partitions)
        g2 == Replay(g1, bump)
        targets == IF computes /\ MustCompute(g2)
                   THEN {TargetRecords(g2, t) : t \in Targets(g2.members, partitions)}
                   ELSE {<<>>}
    IN  {joined \o bump \o t \o ReconcileRecords(Replay(g2, t), m, request.owned) : t \in targets}

(* The assignment is in the answer if it changed, or if the request had all fields. *)
HeartbeatAnswer(before, after, m, request) ==
    [type |-> "answer", error |-> "NONE", epoch |-> CurrentOf(after, m).epoch,
     hasAssignment |-> \/ request.full /\ request.owned.reported
                       \/ CurrentOf(before, m).assigned # CurrentOf(after, m).assigned,
     assigned |-> CurrentOf(after, m).assigned]

(* Leaving for good removes the member; a static member that will return only changes its *)
(* epoch, and gives up what it had to revoke (ref membership.leave).                      *)
LeaveRecords(g, m, request, partitions) ==
    LET c == CurrentOf(g, m)
    IN  IF request.epoch = Leave
        THEN Fence(g, m, partitions)
        ELSE <<Put(8, m, [c EXCEPT !.epoch = StaticLeave, !.pending = {},
                                   !.gained = [p \in c.assigned |-> 0]])>>

-----------------------------------------------------------------------------
(* An offset commit (KIP "OffsetCommit API"; ref offsets.py).  An older epoch may still commit *)
(* a partition that the member has had since then (4.3).                                       *)
CommitIsAccepted(g, commit) ==
    LET c == CurrentOf(g, commit.member)
    IN  /\ commit.member \in g.members
        /\ \/ commit.epoch = c.epoch
           \/ /\ HasPartitionEpochs
              /\ commit.epoch < c.epoch
              /\ commit.partition \in Held(c)
              /\ commit.epoch >= c.gained[commit.partition]
=============================================================================
