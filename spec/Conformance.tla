---------------------------- MODULE Conformance ----------------------------
(***************************************************************************)
(* Whether recorded logs are behaviours of the model's coordinator.  A log *)
(* has the records only: which request wrote them, what it reported, and   *)
(* what the topic looked like are filled in.  Module Logs is written by    *)
(* spec/conform.py.                                                        *)
(***************************************************************************)
EXTENDS Logs

VARIABLES log, at, group
vars == <<log, at, group>>

Records == Logs[log].records

(* A log does not say how many partitions a topic has: they changed or they did not. *)
Sizes == {group.known, group.known + 1}

(* The target is the recorded one: whatever the next records of key 7 say. *)
RecordedTargets(ms, n) ==
    LET ends == {i \in at + 1 .. Len(Records) : Records[i].key = 6 /\ ~Records[i].deleted}
        end == CHOOSE i \in ends : \A j \in ends : i <= j
        written(m) == {i \in at + 1 .. end :
                          Records[i].key = 7 /\ ~Records[i].deleted /\ Records[i].member = m}
        target == [m \in ms |-> IF written(m) = {} THEN TargetOf(group, m)
                                ELSE Records[CHOOSE i \in written(m) : TRUE].value]
    IN  IF ends # {} /\ \A m, k \in ms : m # k => target[m] \cap target[k] = {}
        THEN {target} ELSE {}

Same(r, recorded) ==
    /\ r.key = recorded.key /\ r.member = recorded.member /\ r.deleted = recorded.deleted
    /\ \/ r.deleted \/ r.key = 5
       \/ r.key = 3 /\ r.value.epoch = recorded.value
       \/ r.key \notin {3, 5} /\ r.value = recorded.value

IsNext(records) ==
    /\ records # <<>>
    /\ Len(records) <= Len(Records) - at
    /\ \A i \in DOMAIN records : Same(records[i], Records[at + i])

(* What a member can report of what it owns: nothing, that it has revoked all, or that it has not. *)
Reports(m) ==
    {[reported |-> FALSE, partitions |-> {}], [reported |-> TRUE, partitions |-> {}],
     [reported |-> TRUE, partitions |-> CurrentOf(group, m).assigned]}

Heartbeats(m) ==
    UNION {LET request == [epoch |-> epoch, full |-> TRUE, owned |-> owned]
           IN  IF ErrorOf(group, m, request) # "NONE" THEN {}
               ELSE HeartbeatRecords(group, m, request, n, computes) :
              epoch \in {Join, CurrentOf(group, m).epoch}, owned \in Reports(m), n \in Sizes,
              computes \in IF HasAssignmentInterval THEN BOOLEAN ELSE {TRUE}}

Leaves(m) ==
    IF m \notin group.members THEN {}
    ELSE {LeaveRecords(group, m, [epoch |-> Leave], n) : n \in Sizes} \cup
         IF Instance[m] = "" THEN {}
         ELSE {LeaveRecords(group, m, [epoch |-> StaticLeave], group.known)}

Init == log \in DOMAIN Logs /\ at = 0 /\ group = EmptyGroup

Next ==
    \E m \in Logs[log].members : \E records \in Heartbeats(m) \cup Leaves(m) :
        /\ IsNext(records)
        /\ at' = at + Len(records)
        /\ group' = Replay(group, records)
        /\ PrintT(<<"read", log, at'>>)
        /\ UNCHANGED log
Spec == Init /\ [][Next]_vars
=============================================================================
