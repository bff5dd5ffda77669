------------------------------ MODULE Mutants ------------------------------
(***************************************************************************)
(* Coordinators with one broken rule each: the mutants of the reference in *)
(* tests/coordinator/mutants.py.  A definition here takes the place of one *)
(* of module Coordinator; spec/mutants.py says which.                      *)
(***************************************************************************)
EXTENDS Models

FreeAlways(g, c, p) == TRUE
AcknowledgedAlways(owned, lost) == TRUE
BumpByTwo(epoch) == epoch + 2
PreviousTargetEpoch(g) == g.epoch - 1
NeverReconciles(g, m, owned) == <<>>

(* The real rule, under another name that no override reaches *)
RealRecords(g, m, owned) ==
    LET after == Reconcile(g, m, owned)
    IN  IF after = CurrentOf(g, m) THEN <<>> ELSE <<Put(8, m, after)>>
Changed(g, m, owned, after) ==
    IF RealRecords(g, m, owned) = <<>> THEN <<>> ELSE <<Put(8, m, after)>>

KeepsPending(g, m, owned) ==
    IF Reconcile(g, m, owned).state = "STABLE" /\ CurrentOf(g, m).pending # {}
    THEN <<>> ELSE RealRecords(g, m, owned)

EpochAhead(g, m, owned) ==
    LET after == Reconcile(g, m, owned)
    IN  Changed(g, m, owned, [after EXCEPT !.epoch = @ + 1, !.previous = after.epoch])

EpochBack(g, m, owned) ==
    LET after == Reconcile(g, m, owned)
    IN  Changed(g, m, owned,
                IF after.epoch < 2 THEN after
                ELSE [after EXCEPT !.epoch = 1, !.previous = after.epoch])

TakesAll(ms, n) == {[m \in ms |-> 0 .. n - 1]}

ForgetsAPartition(ms, n) == {Range(ms, n - 1)}

NoTombstones(m) == <<>>
NoBump(g, n) == <<>>
NeverBumps(g, isNew, n) == <<>>

RepeatsTheTarget(g, isNew, n) ==
    IF ~isNew /\ ~MetadataChanged(g, n) THEN <<>>
    ELSE EpochRecord(g, n) \o
         (IF DOMAIN g.target = g.members THEN <<Put(6, "", g.targetEpoch)>> ELSE <<>>)

NeverComputes(g) == FALSE

ForgetsWhereItWas(c, epoch, st, assigned, pending, gained) ==
    [epoch |-> epoch, previous |-> c.previous, state |-> st, assigned |-> assigned,
     pending |-> pending,
     gained |-> [p \in assigned \cup pending |->
                    IF p \in c.assigned THEN c.gained[p] ELSE gained]]

GainedLater(epoch) == epoch + 1

AcceptsAnyEpoch(c, request) == TRUE
=============================================================================
