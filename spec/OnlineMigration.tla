-------------------------- MODULE OnlineMigration --------------------------
(***************************************************************************)
(* A group that moves between the classic and the new protocol while its   *)
(* members keep working (KIP "Supporting Online Consumer Group Upgrade").  *)
(* Clients of both protocols, their restarts with the other protocol, and  *)
(* both conversions.  Consumer groups are those of module Coordinator.     *)
(*                                                                         *)
(* Requests are handled and answered in one step; an answer may be lost.   *)
(* Classic clients are eager: they give up all partitions before they join *)
(* again.  Messages in flight are the matter of module ConsumerGroup.      *)
(***************************************************************************)
EXTENDS Coordinator

CONSTANTS
    Partitions,     \* how many the topic has
    Perturbations,  \* how many perturbations a behaviour has
    Faults,         \* which: "leave", "crash", "timeout", "lose"
    EarlyUpgrades,  \* whether a group may be upgraded before all have rejoined after a downgrade
    FirstProtocols  \* what clients may start with: a subset of {"classic", "consumer"}

(* A client has an epoch or generation, the partitions that it consumes, the assignment that it  *)
(* received, and what it has to do next: "join", "wait" for the others, "sync", "apply" the       *)
(* assignment, "report" what it owns, or "nothing".                                               *)
VARIABLES
    group,    \* what the records say: of a consumer or of a classic group
    classic,  \* the classic group in the coordinator's memory
    client,   \* member id -> what the client knows
    left      \* perturbations that may still happen
vars == <<group, classic, client, left>>

Protocols == {"classic", "consumer"}
Down(protocol) == [protocol |-> protocol, up |-> FALSE, epoch |-> 0, owned |-> {},
                   assigned |-> {}, needs |-> "join"]
Rejoining(c) == [c EXCEPT !.epoch = 0, !.owned = {}, !.assigned = {}, !.needs = "join"]

NoClassic == [phase |-> "none", members |-> {}, joined |-> {}, assignment |-> <<>>]
IsClassic == classic.phase # "none"
Generation == group.classic.generation

SubscriptionAs(m, protocol) == [Subscription(m) EXCEPT !.classic = protocol = "classic"]
InOrder(ms) == SelectSeq(MemberOrder, LAMBDA m : m \in ms)
AssignedBy(assignment, m) == IF m \in DOMAIN assignment THEN assignment[m] ELSE {}

Init ==
    /\ group = EmptyGroup
    /\ classic = NoClassic
    /\ client \in [Members -> {Down(protocol) : protocol \in FirstProtocols}]
    /\ left = Perturbations

Start(m) ==
    /\ ~client[m].up
    /\ client' = [client EXCEPT ![m].up = TRUE]
    /\ UNCHANGED <<group, classic, left>>

-----------------------------------------------------------------------------
(* Conversions (ref upgrade.py, downgrade.py) *)

(* A heartbeat that joins makes a classic group a consumer group; an empty one is deleted. *)
ClassicAssignment == [m \in classic.members |-> AssignedBy(classic.assignment, m)]
ToConsumerRecords ==
    IF classic.members = {} THEN <<Tombstone(2, "")>>
    ELSE UpgradeRecords(InOrder(classic.members),
                        [m \in classic.members |-> SubscriptionAs(m, "classic")],
                        Generation, Partitions, ClassicAssignment)

(* When only classic members remain, the group becomes a classic one, and they have to rejoin. *)
Downgrades(m) ==
    LET remaining == group.members \ {m}
    IN  remaining # {} /\ \A n \in remaining : group.subs[n].classic

(* A member is removed: from a consumer group, or from a classic one. *)
Remove(m) ==
    LET remaining == (IF IsClassic THEN classic.members ELSE group.members) \ {m}
        joining(assignment) == [phase |-> "joining", members |-> remaining,
                                joined |-> classic.joined \ {m}, assignment |-> assignment]
    IN  IF ~IsClassic /\ Downgrades(m)
        THEN /\ group' = Replay(group, DowngradeRecords(group, InOrder(group.members), <<>>,
                                                        group.epoch, remaining))
             /\ classic' = joining([n \in remaining |-> TargetOf(group, n)])
        ELSE IF ~IsClassic
        THEN group' = Replay(group, Fence(group, m, Partitions)) /\ classic' = classic
        ELSE IF remaining # {}
        THEN group' = group /\ classic' = joining(classic.assignment)
        ELSE /\ group' = [group EXCEPT !.classic =
                             [generation |-> Generation + 1, members |-> {}]]
             /\ classic' = [NoClassic EXCEPT !.phase = "stable"]

IsMember(m) == IF IsClassic THEN m \in classic.members ELSE m \in group.members

-----------------------------------------------------------------------------
(* Clients of the new protocol *)

Request(m) ==
    LET c == client[m]
    IN  [epoch |-> IF c.needs = "join" THEN Join ELSE c.epoch, full |-> TRUE,
         owned |-> [reported |-> c.needs # "apply",
                    partitions |-> IF c.needs = "apply" THEN {} ELSE c.owned],
         subscription |-> SubscriptionAs(m, "consumer")]

(* What the heartbeat finds: the group, converted if it was a classic one *)
Found(m) == IF IsClassic /\ client[m].needs = "join" THEN Replay(group, ToConsumerRecords) ELSE group
(* Quantifiers over a single value have TLC compute it once. *)
IsRefused(m) ==
    \/ IsClassic /\ client[m].needs # "join"
    \/ \E found \in {Found(m)}, request \in {Request(m)} : ErrorOf(found, m, request) # "NONE"

HeartbeatIsDue(m) ==
    \/ client[m].needs \in {"join", "report"} \/ IsRefused(m)
    \/ CurrentOf(group, m).epoch # client[m].epoch
    \/ \E request \in {Request(m)} :
           HeartbeatRecords(group, m, request, Partitions, TRUE) # {<<>>}

(* Classic clients that waited for the others are told to join again after a conversion. *)
Aborted(c) == IF c.needs = "wait" THEN [c EXCEPT !.needs = "join"] ELSE c

Heartbeat(m, answered) ==
    LET c == client[m]
        others == IF IsClassic THEN [n \in Members |-> Aborted(client[n])] ELSE client
        got(current) == IF current.assigned = c.owned
                        THEN IF c.needs = "apply" \/ c.assigned # current.assigned
                             THEN "report" ELSE "nothing"
                        ELSE "apply"
    IN  /\ c.up /\ c.protocol = "consumer" /\ HeartbeatIsDue(m)
        /\ EarlyUpgrades \/ c.needs # "join" \/ classic.phase # "joining"
        /\ IF IsRefused(m)
           THEN /\ client' = [client EXCEPT ![m] = Rejoining(c)]
                /\ UNCHANGED <<group, classic>>
           ELSE \E found \in {Found(m)}, request \in {Request(m)} :
                \E records \in HeartbeatRecords(found, m, request, Partitions, TRUE) :
                /\ group' = Replay(found, records)
                /\ classic' = NoClassic
                /\ client' = [others EXCEPT ![m] =
                      IF ~answered THEN IF c.needs = "nothing" THEN [c EXCEPT !.needs = "report"] ELSE c
                      ELSE LET current == CurrentOf(group', m)
                           IN  [c EXCEPT !.epoch = current.epoch, !.assigned = current.assigned,
                                         !.needs = got(current)]]

(* The client has revoked what it lost and takes what it got. *)
Apply(m) ==
    LET c == client[m]
    IN  /\ c.up /\ c.protocol = "consumer" /\ c.needs = "apply"
        /\ client' = [client EXCEPT ![m] = [c EXCEPT !.owned = c.assigned, !.needs = "report"]]
        /\ UNCHANGED <<group, classic, left>>

-----------------------------------------------------------------------------
(* Classic clients (ref classic.py, classic_on_consumer.py) *)

(* A classic member of a consumer group has a step to take: its Heartbeat is answered with *)
(* REBALANCE_IN_PROGRESS.                                                                  *)
WaitsForOthers(m) ==
    \E p \in TargetOf(group, m) \ CurrentOf(group, m).assigned : Owners(group, p) # {}
RequiredEpoch == IF From43 THEN group.targetEpoch ELSE group.epoch
HasStep(m) ==
    LET c == CurrentOf(group, m)
    IN  \/ c.epoch < RequiredEpoch \/ c.state = "UNREVOKED_PARTITIONS"
        \/ c.state = "UNRELEASED_PARTITIONS" /\ ~WaitsForOthers(m)

IsTold(m) ==
    \/ ~IsMember(m)
    \/ IsClassic /\ classic.phase = "joining" /\ m \notin classic.joined
    \/ ~IsClassic /\ (HasStep(m) \/ CurrentOf(group, m).epoch # client[m].epoch)

JoinIsDue(m) == client[m].needs = "join" \/ (client[m].needs = "nothing" /\ IsTold(m))

(* JoinGroup.  A consumer group without members becomes a classic one. *)
IsFresh == group.members = {} /\ ~IsClassic
JoinGroup(m, answered) ==
    LET c == client[m]
        request == [epoch |-> Join, full |-> TRUE, owned |-> [reported |-> TRUE, partitions |-> {}],
                    subscription |-> SubscriptionAs(m, "classic")]
        joining == [c EXCEPT !.owned = {}, !.assigned = {}]
    IN  /\ c.up /\ c.protocol = "classic" /\ JoinIsDue(m)
        /\ IF IsClassic \/ IsFresh
           THEN /\ group' = IF IsClassic THEN group
                            ELSE [EmptyGroup EXCEPT !.classic = [generation |-> 0, members |-> {}]]
                /\ classic' = [classic EXCEPT !.phase = "joining", !.members = @ \cup {m},
                                              !.joined = @ \cup {m}]
                /\ client' = [client EXCEPT ![m] =
                                 [joining EXCEPT !.needs = IF answered THEN "wait" ELSE "join"]]
           ELSE \E asked \in {request} :
                \E records \in HeartbeatRecords(group, m, asked, Partitions, TRUE) :
                /\ group' = Replay(group, records)
                /\ classic' = classic
                /\ client' = [client EXCEPT ![m] =
                      [joining EXCEPT !.needs = IF answered THEN "sync" ELSE "join",
                                      !.epoch = IF answered THEN CurrentOf(group', m).epoch ELSE @]]

(* All members of a classic group have joined: the leader assigns, a new generation begins. *)
CompleteJoin ==
    /\ classic.phase = "joining" /\ classic.joined = classic.members
    /\ group' = [group EXCEPT !.classic = [generation |-> Generation + 1,
                                           members |-> classic.members]]
    /\ classic' = [classic EXCEPT !.phase = "stable", !.joined = {},
                                  !.assignment = Range(classic.members, Partitions)]
    /\ client' = [m \in Members |->
                     IF client[m].needs = "wait" /\ m \in classic.members
                     THEN [client[m] EXCEPT !.needs = "sync", !.epoch = Generation + 1]
                     ELSE client[m]]
    /\ UNCHANGED left

SyncGroup(m) ==
    LET c == client[m]
        current == CurrentOf(group, m)
        given(partitions) == [c EXCEPT !.owned = partitions, !.assigned = partitions,
                                       !.needs = "nothing"]
        again == [c EXCEPT !.needs = "join"]
    IN  /\ c.up /\ c.protocol = "classic" /\ c.needs = "sync"
        /\ client' = [client EXCEPT ![m] =
              IF ~IsMember(m) THEN again
              ELSE IF IsClassic
              THEN IF classic.phase = "stable" /\ c.epoch = Generation
                   THEN given(AssignedBy(classic.assignment, m)) ELSE again
              ELSE IF current.epoch # c.epoch THEN again
              ELSE IF RequiredEpoch > current.epoch /\ current.state # "UNREVOKED_PARTITIONS"
              THEN again ELSE given(current.assigned)]
        /\ UNCHANGED <<group, classic, left>>

-----------------------------------------------------------------------------
(* Perturbations *)

EndSession(m) ==
    /\ ~client[m].up /\ IsMember(m)
    /\ Remove(m)
    /\ UNCHANGED <<client, left>>

(* A client leaves or crashes, and may come back with the other protocol. *)
LeaveGroup(m) ==
    /\ client[m].up /\ IsMember(m)
    /\ Remove(m)
    /\ \E protocol \in Protocols : client' = [client EXCEPT ![m] = Down(protocol)]
Crash(m) ==
    /\ client[m].up
    /\ \E protocol \in Protocols : client' = [client EXCEPT ![m] = Down(protocol)]
    /\ UNCHANGED <<group, classic>>
SessionTimeout(m) ==
    /\ client[m].up /\ IsMember(m)
    /\ Remove(m)
    /\ client' = [client EXCEPT ![m] = IF @.needs = "wait" THEN [@ EXCEPT !.needs = "join"] ELSE @]

Perturb ==
    /\ left > 0 /\ left' = left - 1
    /\ \E m \in Members :
          \/ "leave" \in Faults /\ LeaveGroup(m)
          \/ "crash" \in Faults /\ Crash(m)
          \/ "timeout" \in Faults /\ SessionTimeout(m)
          \/ "lose" \in Faults /\ (Heartbeat(m, FALSE) \/ JoinGroup(m, FALSE))

Proceed(m) ==
    \/ (Heartbeat(m, TRUE) \/ JoinGroup(m, TRUE)) /\ UNCHANGED left
    \/ Apply(m) \/ SyncGroup(m) \/ EndSession(m)

Next == CompleteJoin \/ Perturb \/ \E m \in Members : Start(m) \/ Proceed(m)
Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* Properties *)

Current == group.current
Target == group.target

C2_EpochsAreOrdered ==
    /\ group.targetEpoch <= group.epoch
    /\ \A m \in DOMAIN Current : Current[m].epoch <= group.targetEpoch
C4_TargetsAreDisjoint ==
    /\ \A m, n \in DOMAIN Target : m # n => Target[m] \cap Target[n] = {}
    /\ DOMAIN Target \subseteq group.members
C7_PendingMeansUnrevoked ==
    \A m \in DOMAIN Current :
        LET c == Current[m]
        IN  /\ c.assigned \cap c.pending = {}
            /\ c.pending # {} <=> c.state = "UNREVOKED_PARTITIONS"
C8_NoPartitionHasTwoOwners ==
    \A m, n \in DOMAIN Current : m # n => Held(Current[m]) \cap Held(Current[n]) = {}
C10_StableMembersHaveTheirTarget ==
    \A m \in DOMAIN Current :
        Current[m].state = "STABLE" /\ Current[m].epoch = group.targetEpoch /\ m \in DOMAIN Target
            => Current[m].assigned = Target[m]
C11_MembersAreDeletedWhole == DOMAIN Current \cup DOMAIN Target \subseteq group.members

(* The records are those of one type of group, the type that the coordinator has in memory. *)
OneTypeOfGroup ==
    /\ IsClassic <=> Generation >= 0
    /\ IsClassic => [group EXCEPT !.classic = NoClassicGroup] = EmptyGroup

(* A conversion of a group with members keeps the epoch: the members' generation goes on. *)
EpochOf(g) == IF g.classic.generation >= 0 THEN g.classic.generation ELSE g.epoch
EpochsGoOn ==
    [][\/ EpochOf(group') >= EpochOf(group)
       \/ group.members = {} /\ classic.members = {}]_vars

(* No two clients that are members consume the same partition, whatever protocols they use. *)
Consumes(m) == IF client[m].up /\ IsMember(m) THEN client[m].owned ELSE {}
NoPartitionIsConsumedTwice ==
    \A m, n \in Members : m # n => Consumes(m) \cap Consumes(n) = {}

(* What a client of a consumer group consumes, the coordinator counts as owned by it: also after a *)
(* conversion.                                                                                     *)
ConsumedPartitionsAreOwned ==
    ~IsClassic => \A m \in Members : Consumes(m) \subseteq Held(CurrentOf(group, m))

(* When nothing can happen without a perturbation, all clients are members and all partitions are *)
(* consumed.                                                                                      *)
IsQuiet ==
    /\ ~(classic.phase = "joining" /\ classic.joined = classic.members)
    /\ \A m \in Members :
          LET c == client[m]
          IN  /\ c.up /\ c.needs \notin {"apply", "sync"}
              /\ IF c.protocol = "classic" THEN ~JoinIsDue(m) ELSE ~HeartbeatIsDue(m)
Converged ==
    /\ \A m \in Members : IsMember(m)
    /\ UNION {Consumes(m) : m \in Members} = 0 .. Partitions - 1
    /\ ~IsClassic => \A m \in Members : client[m].epoch = group.epoch
QuietGroupsHaveConverged == IsQuiet => Converged

TwoMembers == <<"a", "b">>
ThreeMembers == <<"a", "b", "c">>
NoInstances == [m \in Members |-> ""]
=============================================================================
