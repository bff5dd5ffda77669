---------------------------- MODULE Conformance ----------------------------
(***************************************************************************)
(* Whether recorded logs are behaviours of the model's coordinator.  A log *)
(* has the records only: which request wrote them, what it reported, and   *)
(* what the topics looked like are filled in.  Module Logs is written by   *)
(* spec/conform.py.  kip848_spark/conformance does the same without TLC.   *)
(***************************************************************************)
EXTENDS Logs

VARIABLES log, at, group
vars == <<log, at, group>>

Records == Logs[log].records
Has(i) == i \in DOMAIN Records

(* The longest beginning of an operation that says what it is about *)
Near == {i \in at + 1 .. at + 8 : Has(i)}
ValuesOf(key) == {i \in Near : Records[i].key = key /\ ~Records[i].deleted}

RECURSIVE RunFrom(_, _, _)
RunFrom(i, key, deleted) ==
    IF Has(i) /\ Records[i].key = key /\ Records[i].deleted = deleted
    THEN <<Records[i]>> \o RunFrom(i + 1, key, deleted) ELSE <<>>
NamesOf(run) == [i \in DOMAIN run |-> run[i].member]
Different(names) == \A i, j \in DOMAIN names : i # j => names[i] # names[j]

(* The metadata of the topics are what the group knows, or what its next epoch was computed for. *)
Sizes == {group.known} \cup {Records[i].value.partitions : i \in ValuesOf(3)}

(* The target is the recorded one: whatever the next records of key 7 say.  Partition -1 stands *)
(* for one that a record has twice.                                                             *)
RecordedTargets(ms, n) ==
    LET ends == {i \in at + 1 .. Len(Records) : Records[i].key = 6 /\ ~Records[i].deleted}
        end == CHOOSE i \in ends : \A j \in ends : i <= j
        written(m) == {i \in at + 1 .. end :
                          Records[i].key = 7 /\ ~Records[i].deleted /\ Records[i].member = m}
        last(m) == CHOOSE i \in written(m) : \A j \in written(m) : j <= i
        target == [m \in ms |-> IF written(m) = {} THEN TargetOf(group, m)
                                ELSE Records[last(m)].value]
    IN  IF /\ ends # {}
           /\ \A m \in ms : -1 \notin target[m]
           /\ \A m, k \in ms : m # k => target[m] \cap target[k] = {}
        THEN {target} ELSE {}

Same(r, recorded) ==
    /\ r.key = recorded.key /\ r.member = recorded.member /\ r.deleted = recorded.deleted
    /\ r.deleted \/ r.value = recorded.value

IsNext(records) ==
    /\ records # <<>>
    /\ Len(records) <= Len(Records) - at
    /\ \A i \in DOMAIN records : Same(records[i], Records[at + i])

-----------------------------------------------------------------------------
(* Members *)

(* What a member can report of what it owns: nothing, that it has revoked all, or that it has not; *)
(* and which topics it does not subscribe to, where that matters.                                  *)
Reports(m) ==
    LET matters == /\ MasksLostTopics
                   /\ \/ ValuesOf(3) \cup ValuesOf(5) # {}
                      \/ group.targetEpoch < group.epoch
                      \/ /\ SubscriptionOf(group, m).regex # ""
                         /\ SubscriptionOf(group, m).regex \notin DOMAIN group.resolved
                      \/ SubscribesToNothing(group, m)
        lists == {[reported |-> FALSE, partitions |-> {}], [reported |-> TRUE, partitions |-> {}],
                  [reported |-> TRUE, partitions |-> CurrentOf(group, m).assigned]}
    IN  IF ~matters THEN lists
        ELSE {list @@ [lost |-> lost, nothing |-> nothing] :
                 list \in lists, lost \in SUBSET Logs[log].topics, nothing \in BOOLEAN}

Subscriptions(m) ==
    {Records[i].value : i \in {j \in ValuesOf(5) : Records[j].member = m}} \cup
    IF m \in group.members THEN {group.subs[m]}
    ELSE {group.subs[h] : h \in {h \in group.members : group.subs[h].instance # ""}}

(* A member that is away (epoch -2) has to join again. *)
Heartbeats(m) ==
    UNION {LET request == [epoch |-> epoch, full |-> TRUE, owned |-> owned,
                           subscription |-> subscription, other |-> also, vote |-> vote]
           IN  IF ErrorOf(group, m, request) # "NONE" THEN {}
               ELSE HeartbeatRecords(group, m, request, n, computes) :
              epoch \in {Join} \cup {e \in {CurrentOf(group, m).epoch} : e >= 0},
              subscription \in Subscriptions(m),
              also \in IF \E i \in ValuesOf(5) : Records[i].member = m THEN BOOLEAN ELSE {FALSE},
              owned \in Reports(m), n \in Sizes, vote \in IF VotesBump THEN BOOLEAN ELSE {FALSE},
              computes \in IF HasAssignmentInterval THEN BOOLEAN ELSE {TRUE}}

StaticLeaves(m) ==
    IF SubscriptionOf(group, m).instance = "" THEN {}
    ELSE {LeaveRecords(group, m, [epoch |-> StaticLeave], group.known)}

(* Members that leave together: their tombstones come member by member. *)
RECURSIVE Leaving(_)
Leaving(i) ==
    IF Has(i + 2) /\ Records[i].key = 8 /\ Records[i].deleted /\ Records[i + 1].key = 7
    THEN <<Records[i].member>> \o Leaving(i + 3) ELSE <<>>

Leaves ==
    LET ms == Leaving(at + 1)
    IN  IF ms = <<>> \/ ~Different(ms) \/ \E i \in DOMAIN ms : ms[i] \notin group.members THEN {}
        ELSE {FenceAll(group, ms, n) :
                 n \in {Records[i].value.partitions :
                           i \in {j \in DOMAIN Records : Records[j].key = 3 /\ ~Records[j].deleted}}}

-----------------------------------------------------------------------------
(* The group *)

Resolutions ==
    LET run == RunFrom(at + 1, 16, FALSE)
        found(k) == [i \in 1 .. k |-> [regex |-> run[i].member, topics |-> run[i].value]]
        possible == {k \in DOMAIN run : /\ Different(NamesOf(SubSeq(run, 1, k)))
                                        /\ \A i \in 1 .. k : Uses(group, run[i].member)}
        sizes == {group.known} \cup
                 {Records[i].value.partitions : i \in
                     {j \in {at + Len(run) + 1} : Has(j) /\ Records[j].key = 3 /\ ~Records[j].deleted}}
    IN  {ResolveRecords(group, found(k), n) : k \in possible, n \in sizes}

IsEmptyGroup == [group EXCEPT !.classic = NoClassicGroup] = EmptyGroup

(* The expressions in the tombstones of a group *)
RegexesAfter(n) == NamesOf(RunFrom(at + 2 * n + 1 + n + 1, 16, TRUE))
KnownRegexes == DOMAIN group.resolved \cup {group.subs[m].regex : m \in group.members}
RegexesAreKnown(regexes) ==
    Different(regexes) /\ \A i \in DOMAIN regexes : regexes[i] \in KnownRegexes

Deletions ==
    IF group.members = {} /\ ~IsEmptyGroup /\ RegexesAreKnown(RegexesAfter(0))
    THEN {GroupTombstones(<<>>, RegexesAfter(0))} ELSE {}

(* Members of the new protocol are gone; in a group of classic members, any may be.  A static *)
(* member that just became a classic one may have raised the epoch before.                    *)
Downgrades ==
    LET order == NamesOf(RunFrom(at + 1, 8, TRUE))
        regexes == RegexesAfter(Len(order))
        all == ClassicMembers(group) = group.members
        end == at + 3 * Len(order) + Len(regexes) + 3
        given == IF Has(end) /\ Records[end].key = 2 /\ ~Records[end].deleted
                 THEN Records[end].value.members \cap group.members ELSE {}
        remaining == IF all THEN given ELSE ClassicMembers(group)
    IN  IF /\ ClassicMembers(group) # {} /\ remaining # {} /\ Different(order)
           /\ {order[i] : i \in DOMAIN order} = group.members /\ RegexesAreKnown(regexes)
        THEN {DowngradeRecords(group, order, regexes, generation, remaining) :
                 generation \in {group.epoch} \cup IF all THEN {group.epoch - 1} ELSE {}}
        ELSE {}

(* The classic protocol is not modelled: a classic group has any records while it lasts. *)
ClassicGroups ==
    LET r == Records[at + 1]
    IN  IF ~Has(at + 1) \/ Records[at + 1].key # 2 THEN {}
        ELSE IF ~r.deleted THEN IF IsEmptyGroup THEN {<<r>>} ELSE {}
        ELSE IF group.classic.generation >= 0 /\ group.classic.members = {} THEN {<<r>>} ELSE {}

Upgrades ==
    LET members == RunFrom(at + 2, 5, FALSE)
        order == NamesOf(members)
        subs == [m \in {order[i] : i \in DOMAIN order} |->
                    members[CHOOSE i \in DOMAIN order : order[i] = m].value]
        end == at + 2 + Len(members)
        run == RunFrom(end + 1, 7, FALSE)
        targets == [m \in {run[i].member : i \in DOMAIN run} |->
                       run[CHOOSE i \in DOMAIN run : run[i].member = m].value]
    IN  IF /\ group.classic.generation >= 0 /\ order # <<>> /\ Different(order)
           /\ Has(end) /\ Records[end].key = 3 /\ ~Records[end].deleted
           /\ \A i \in DOMAIN members : members[i].value.classic
           /\ Records[end].value.epoch >= group.classic.generation
           /\ DOMAIN targets = DOMAIN subs
           /\ \A m, k \in DOMAIN targets : m # k => targets[m] \cap targets[k] = {}
        THEN {UpgradeRecords(order, subs, Records[end].value.epoch,
                             Records[end].value.partitions, targets)}
        ELSE {}

(* A coordinator may forget an empty group (docs/kafka-facts.md#epoch-restarts-without-a-tombstone). *)
Forget ==
    /\ group.members = {} /\ group.classic = NoClassicGroup /\ group # EmptyGroup
    /\ group' = EmptyGroup
    /\ UNCHANGED <<log, at>>

-----------------------------------------------------------------------------

Init == log \in DOMAIN Logs /\ at = 0 /\ group = EmptyGroup

Requesting ==
    {m \in Logs[log].members :
        m \in group.members \/ \E i \in Near : Records[i].member = m}

Write ==
    \E records \in UNION {Heartbeats(m) \cup StaticLeaves(m) : m \in Requesting} \cup Leaves
                   \cup Resolutions \cup Deletions \cup Downgrades \cup ClassicGroups \cup Upgrades :
        /\ IsNext(records)
        /\ at' = at + Len(records)
        /\ group' = Replay(group, records)
        /\ PrintT(<<"read", log, at'>>)
        /\ UNCHANGED log

Next == at < Len(Records) /\ (Write \/ Forget)
Spec == Init /\ [][Next]_vars
=============================================================================
