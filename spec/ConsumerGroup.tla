--------------------------- MODULE ConsumerGroup ---------------------------
(***************************************************************************)
(* A group of KIP-848: its coordinator, its clients, and the messages      *)
(* between them.  Messages may be lost, delayed and (by clients that try   *)
(* again) repeated.  What disturbs a group is a perturbation; a behaviour  *)
(* has at most `Perturbations` of them, so that a model is finite and a    *)
(* group has to converge in the end.  docs/model.md says what is left out. *)
(***************************************************************************)
EXTENDS Coordinator

CONSTANTS
    InitialPartitions, MaxPartitions,  \* the topic's partitions; they may grow
    Perturbations,                     \* how many perturbations a behaviour has
    Faults,             \* which: a set of names, see Perturb
    LateCopies,         \* whether an old request may arrive after a newer one
    ReportsEarly,       \* whether a client reports what it owns while it is still reconciling
    Commits             \* whether there are offset commits

(* A client has an epoch (-1: it is down), the partitions that it consumes, the assignment that  *)
(* it received last, whether it has applied that, and what its next heartbeat must tell: "all"   *)
(* fields, what it has "owned" since, or "nothing".                                               *)
VARIABLES
    partitions,  \* number of the topic's partitions
    group,       \* the coordinator's state: what its records say
    client,      \* member id -> what the client knows
    wire,        \* member id -> the request or answer in flight
    late,        \* at most one old request that may still arrive
    commit,      \* an offset commit in flight
    left,        \* perturbations that may still happen
    step         \* what happened last: no part of the state, only shown

vars == <<partitions, group, client, wire, late, commit, left, step>>
state == <<partitions, group, client, wire, late, commit, left>>

Idle == [type |-> "idle"]
None == [type |-> "none"]
Down == [epoch |-> -1, owned |-> {}, assigned |-> {}, applied |-> TRUE, tells |-> "all"]
Joining == [Down EXCEPT !.epoch = Join]

IsUp(m) == client[m].epoch >= 0
Did(action, m, records) == [action |-> action, member |-> m, records |-> records]

Init ==
    /\ partitions = InitialPartitions
    /\ group = EmptyGroup
    /\ client = [m \in Members |-> Down]
    /\ wire = [m \in Members |-> Idle]
    /\ late = None
    /\ commit = None
    /\ left = Perturbations
    /\ step = Did("Init", "", <<>>)

-----------------------------------------------------------------------------
(* Clients (KIP "ConsumerGroupHeartbeat API", "Response Handling") *)

(* Two clients never run with the same instance id. *)
Start(m) ==
    /\ ~IsUp(m)
    /\ \A n \in Members : IsUp(n) => Instance[m] = "" \/ Instance[n] # Instance[m]
    /\ client' = [client EXCEPT ![m] = Joining]
    /\ step' = Did("Start", m, <<>>)
    /\ UNCHANGED <<partitions, group, wire, late, commit, left>>

(* A client reports what it owns after it has applied an assignment.  After an error or a lost *)
(* answer it sends all fields again.                                                           *)
Heartbeat(m) ==
    LET c == client[m]
        full == c.tells = "all" \/ c.epoch = Join
        reported == (full \/ c.tells = "owned") /\ (c.applied \/ ReportsEarly)
    IN  [type |-> "request", epoch |-> c.epoch, full |-> full,
         owned |-> [reported |-> reported, partitions |-> IF reported THEN c.owned ELSE {}]]

(* Whether a heartbeat would change the group or the client.  Clients send heartbeats all the  *)
(* time; those that change nothing are left out.                                               *)
IsDue(m) ==
    \/ client[m].tells # "nothing" \/ ~client[m].applied
    \/ ErrorOf(group, m, Heartbeat(m)) # "NONE"
    \/ CurrentOf(group, m).epoch # client[m].epoch
    \/ HeartbeatRecords(group, m, Heartbeat(m), partitions, TRUE) # {<<>>}

CanSend(m) == IsUp(m) /\ wire[m] = Idle /\ IsDue(m)
SendHeartbeat(m) ==
    /\ CanSend(m)
    /\ wire' = [wire EXCEPT ![m] = Heartbeat(m)]
    /\ client' = [client EXCEPT ![m].tells = IF Heartbeat(m).owned.reported THEN "nothing" ELSE @]
    /\ step' = Did("SendHeartbeat", m, <<>>)
    /\ UNCHANGED <<partitions, group, late, commit, left>>

Receive(m) ==
    LET a == wire[m]
        c == client[m]
    IN  /\ a.type = "answer"
        /\ wire' = [wire EXCEPT ![m] = Idle]
        /\ client' = [client EXCEPT ![m] =
              CASE a.error = "NONE" /\ a.hasAssignment ->
                     [c EXCEPT !.epoch = a.epoch, !.assigned = a.assigned,
                               !.applied = c.applied /\ c.owned = a.assigned]
                [] a.error = "NONE" -> [c EXCEPT !.epoch = a.epoch]
                [] a.error = "FENCED_INSTANCE_ID" -> Down
                [] OTHER -> Joining]  \* it has given up all partitions (KIP "Fencing")
        /\ step' = Did("Receive", m, <<>>)
        /\ UNCHANGED <<partitions, group, late, commit, left>>

(* The client has revoked what it lost and takes what it got. *)
Apply(m) ==
    LET c == client[m]
    IN  /\ IsUp(m) /\ ~c.applied
        /\ client' = [client EXCEPT ![m] =
              [c EXCEPT !.owned = c.assigned, !.applied = TRUE,
                        !.tells = IF c.tells = "all" THEN "all" ELSE "owned"]]
        /\ step' = Did("Apply", m, <<>>)
        /\ UNCHANGED <<partitions, group, wire, late, commit, left>>

(* One commit, which may arrive at any time later: what would be accepted is a property. *)
SendCommit(m, p) ==
    /\ Commits /\ commit = None /\ IsUp(m) /\ p \in client[m].owned
    /\ commit' = [type |-> "commit", member |-> m, epoch |-> client[m].epoch, partition |-> p]
    /\ step' = Did("SendCommit", m, <<>>)
    /\ UNCHANGED <<partitions, group, client, wire, late, left>>

-----------------------------------------------------------------------------
(* The coordinator *)

(* A request is handled: its records are written, and its client is answered.  Nobody waits for *)
(* the answer to a leave, or to a late copy.                                                    *)
Handle(m, request, computes) ==
    LET error == ErrorOf(group, m, request)
        refused == [type |-> "answer", error |-> error, epoch |-> 0,
                    hasAssignment |-> FALSE, assigned |-> {}]
        written == IF error # "NONE" THEN {<<>>}
                   ELSE IF request.epoch < 0 THEN {LeaveRecords(group, m, request, partitions)}
                   ELSE HeartbeatRecords(group, m, request, partitions, computes)
        answer(after) == IF request.epoch < 0 THEN Idle
                         ELSE IF error # "NONE" THEN refused
                         ELSE HeartbeatAnswer(group, after, m, request)
    IN  \E records \in written :
            /\ group' = Replay(group, records)
            /\ step' = Did("Handle", m, records)
            /\ IF request = wire[m] THEN wire' = [wire EXCEPT ![m] = answer(group')]
                                    ELSE wire' = wire

HandleRequest(m) ==
    /\ wire[m].type = "request"
    /\ Handle(m, wire[m], TRUE)
    /\ UNCHANGED <<partitions, client, late, commit, left>>

(* A client that is down has left, crashed, or was fenced: its session ends. *)
SessionEnds(m) == ~IsUp(m) /\ m \in group.members /\ wire[m] = Idle
EndSession(m) ==
    /\ SessionEnds(m)
    /\ LET records == Fence(group, m, partitions)
       IN  group' = Replay(group, records) /\ step' = Did("EndSession", m, records)
    /\ UNCHANGED <<partitions, client, wire, late, commit, left>>

-----------------------------------------------------------------------------
(* Perturbations *)

(* A request or an answer is lost, and the client tries again. *)
Lose(m) ==
    /\ wire[m] # Idle
    /\ wire' = [wire EXCEPT ![m] = Idle]
    /\ client' = IF IsUp(m) THEN [client EXCEPT ![m].tells = "all"] ELSE client
    /\ step' = Did("Lose", m, <<>>)
    /\ UNCHANGED <<partitions, group, late, commit>>

(* A client leaves.  It gives up its partitions before (KIP "Heartbeat & Session"). *)
LeaveGroup(m) ==
    /\ IsUp(m) /\ m \in group.members /\ client[m].epoch > 0
    /\ client' = [client EXCEPT ![m] = Down]
    /\ wire' = [wire EXCEPT ![m] =
          [type |-> "request", epoch |-> IF Instance[m] = "" THEN Leave ELSE StaticLeave,
           full |-> FALSE, owned |-> [reported |-> FALSE, partitions |-> {}]]]
    /\ step' = Did("LeaveGroup", m, <<>>)
    /\ UNCHANGED <<partitions, group, late, commit>>

Crash(m) ==
    /\ IsUp(m)
    /\ client' = [client EXCEPT ![m] = Down]
    /\ wire' = [wire EXCEPT ![m] = Idle]
    /\ step' = Did("Crash", m, <<>>)
    /\ UNCHANGED <<partitions, group, late, commit>>

(* The session of a running client ends (KIP "Heartbeat & Session"; ref sessions.keep_session), *)
(* or it did not revoke in time (KIP "Rebalance Timeout"; ref sessions.await_revocation).       *)
SessionTimeout(m) ==
    /\ IsUp(m) /\ m \in group.members
    /\ LET records == Fence(group, m, partitions)
       IN  group' = Replay(group, records) /\ step' = Did("SessionTimeout", m, records)
    /\ UNCHANGED <<partitions, client, wire, late, commit>>

RebalanceTimeout(m) ==
    /\ m \in group.members /\ CurrentOf(group, m).state = "UNREVOKED_PARTITIONS"
    /\ CurrentOf(group, m).pending # {}
    /\ LET records == Fence(group, m, partitions)
       IN  group' = Replay(group, records) /\ step' = Did("RebalanceTimeout", m, records)
    /\ UNCHANGED <<partitions, client, wire, late, commit>>

(* The topic grows; the next heartbeat reads its metadata again (ref housekeeping.change_topic). *)
Grow ==
    /\ partitions < MaxPartitions
    /\ partitions' = partitions + 1
    /\ step' = Did("Grow", "", <<>>)
    /\ UNCHANGED <<group, client, wire, late, commit>>

(* Another broker becomes the coordinator (KIP "Fail Over").  The group is what its records say; *)
(* requests in flight are lost.                                                                  *)
FailOver ==
    /\ wire' = [m \in Members |-> IF wire[m].type = "request" THEN Idle ELSE wire[m]]
    /\ client' = [m \in Members |-> IF wire[m].type = "request" /\ IsUp(m)
                                    THEN [client[m] EXCEPT !.tells = "all"] ELSE client[m]]
    /\ step' = Did("FailOver", "", <<>>)
    /\ UNCHANGED <<partitions, group, late, commit>>

(* The assignment interval has not passed yet (4.3; ref target.may_compute). *)
HandleWithinInterval(m) ==
    /\ HasAssignmentInterval
    /\ wire[m].type = "request" /\ wire[m].epoch >= 0
    /\ Handle(m, wire[m], FALSE)
    /\ UNCHANGED <<partitions, client, late, commit>>

(* A copy of a request is delayed: the client tries again meanwhile. *)
Delay(m) ==
    /\ LateCopies /\ late = None /\ wire[m].type = "request" /\ IsUp(m)
    /\ late' = [type |-> "late", member |-> m, request |-> wire[m]]
    /\ wire' = [wire EXCEPT ![m] = Idle]
    /\ client' = [client EXCEPT ![m].tells = "all"]
    /\ step' = Did("Delay", m, <<>>)
    /\ UNCHANGED <<partitions, group, commit>>

LateArrives == late.type = "late" /\ wire[late.member] # late.request
HandleLate ==
    /\ LateArrives
    /\ Handle(late.member, late.request, TRUE)
    /\ late' = None
    /\ UNCHANGED <<partitions, client, commit, left>>

Perturb ==
    /\ left > 0
    /\ left' = left - 1
    /\ \/ "grow" \in Faults /\ Grow
       \/ "fail over" \in Faults /\ FailOver
       \/ \E m \in Members :
             \/ "lose" \in Faults /\ (Lose(m) \/ Delay(m))
             \/ "leave" \in Faults /\ LeaveGroup(m)
             \/ "crash" \in Faults /\ Crash(m)
             \/ "timeout" \in Faults /\ (SessionTimeout(m) \/ RebalanceTimeout(m))
             \/ "interval" \in Faults /\ HandleWithinInterval(m)

-----------------------------------------------------------------------------

Proceed(m) ==
    \/ SendHeartbeat(m) \/ HandleRequest(m) \/ Receive(m) \/ Apply(m) \/ EndSession(m)

Next ==
    \/ \E m \in Members : Proceed(m) \/ Start(m)
    \/ \E m \in Members, p \in 0 .. MaxPartitions - 1 : SendCommit(m, p)
    \/ HandleLate
    \/ Perturb

Spec == Init /\ [][Next]_vars

(* Clients and coordinator go on: nothing that they can do is put off for ever.  Each of these    *)
(* actions is enabled exactly if its first condition holds, and ends that condition.  So weak       *)
(* fairness of the action means that the condition is false again and again, which TLC checks       *)
(* without looking for successors of every state.                                                   *)
Fairness ==
    /\ []<>~LateArrives
    /\ \A m \in Members :
          /\ []<>~CanSend(m)
          /\ []<>(wire[m].type # "request")
          /\ []<>(wire[m].type # "answer")
          /\ []<>~(IsUp(m) /\ ~client[m].applied)
          /\ []<>~SessionEnds(m)

FairSpec == Spec /\ Fairness

(* For models that check liveness, where `step` would only multiply states *)
NothingShown(action, m, records) == [records |-> <<>>]

=============================================================================
