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
(*   2 classic group    16 a resolved regular expression                   *)
(* "KIP" cites a section of KIP-848, "ref" a function of the reference in  *)
(* kip848_spark/coordinator.                                               *)
(***************************************************************************)
EXTENDS Integers, Sequences, FiniteSets, TLC

CONSTANTS
    MemberOrder,  \* the member ids, in the order of the range assignor
    Instance,     \* member id -> instance id; "" for a dynamic member
    Release,      \* "4.0", "4.1", "4.2", "4.3", "4.4", or the first patches "4.0.0", "4.1.0"
    Assignor      \* "range", or "any": every balanced assignment

Members == {MemberOrder[i] : i \in DOMAIN MemberOrder}

(* How releases differ (ref releases.py) *)
FirstPatches == Release \in {"4.0.0", "4.1.0"}
Until41 == Release \in {"4.0", "4.1"} \/ FirstPatches
JoinIsNeverFenced == ~Until41
EpochsAfterRevocation == IF Until41 THEN 1 ELSE 0
MasksLostTopics == ~Until41
From43 == Release \in {"4.3", "4.4"}
UnsubscribingSteps == From43
ClearingRegexBumps == Release # "4.0" /\ ~FirstPatches
OwnPendingIsFree == ~FirstPatches
HasPartitionEpochs == From43
HasAssignmentInterval == From43
FirstEpoch == IF From43 THEN 1 ELSE 0
RepeatsCopiedTarget == Release # "4.4"
VotesBump == Release = "4.4"
EmptiesTarget == Release = "4.4"

Join == 0
Leave == -1
StaticLeave == -2

Min(x, y) == IF x < y THEN x ELSE y
Max(x, y) == IF x > y THEN x ELSE y
Without(f, x) == [y \in DOMAIN f \ {x} |-> f[y]]
With(f, x, value) == (x :> value) @@ f
Field(r, name, default) == IF name \in DOMAIN r THEN r[name] ELSE default

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

(* What a member subscribes to.  The models of module ConsumerGroup have one topic; recorded logs *)
(* have any subscriptions (module Conformance).                                                   *)
TopicOf(p) == "foo"
NoSubscription == [topics |-> {}, regex |-> "", classic |-> FALSE, instance |-> "",
                   votes |-> ""]
Subscription(m) == [NoSubscription EXCEPT !.topics = {"foo"}, !.instance = Instance[m]]

NoClassicGroup == [generation |-> -1, members |-> {}]

Nothing == [epoch |-> 0, previous |-> -1, state |-> "STABLE",
            assigned |-> {}, pending |-> {}, gained |-> <<>>]

EmptyGroup == [epoch |-> FirstEpoch, targetEpoch |-> FirstEpoch, known |-> 0,
               members |-> {}, subs |-> <<>>, target |-> <<>>, current |-> <<>>,
               resolved |-> <<>>, classic |-> NoClassicGroup]

ReplayOne(g, r) ==
    CASE r.key = 3 -> IF r.deleted THEN [EmptyGroup EXCEPT !.classic = g.classic]
                      ELSE [g EXCEPT !.epoch = r.value.epoch, !.known = r.value.partitions]
      [] r.key = 5 -> IF r.deleted
                      THEN [g EXCEPT !.members = @ \ {r.member}, !.subs = Without(@, r.member)]
                      ELSE [g EXCEPT !.members = @ \cup {r.member},
                                     !.subs = With(@, r.member, r.value)]
      [] r.key = 6 -> [g EXCEPT !.targetEpoch = IF r.deleted THEN FirstEpoch ELSE r.value]
      [] r.key = 7 -> [g EXCEPT !.target =
                          IF r.deleted THEN Without(@, r.member) ELSE With(@, r.member, r.value)]
      [] r.key = 8 -> [g EXCEPT !.current =
                          IF r.deleted THEN Without(@, r.member) ELSE With(@, r.member, r.value)]
      [] r.key = 16 -> [g EXCEPT !.resolved =
                          IF r.deleted THEN Without(@, r.member) ELSE With(@, r.member, r.value)]
      [] r.key = 2 -> [g EXCEPT !.classic = IF r.deleted THEN NoClassicGroup ELSE r.value]

RECURSIVE Replay(_, _)
Replay(g, records) ==
    IF records = <<>> THEN g ELSE Replay(ReplayOne(g, Head(records)), Tail(records))

CurrentOf(g, m) == IF m \in DOMAIN g.current THEN g.current[m] ELSE Nothing
TargetOf(g, m) == IF m \in DOMAIN g.target THEN g.target[m] ELSE {}
SubscriptionOf(g, m) == IF m \in g.members THEN g.subs[m] ELSE NoSubscription
Uses(g, regex) == \E m \in g.members : g.subs[m].regex = regex
Held(c) == c.assigned \cup c.pending

(* A member owns what it is assigned and what it has yet to revoke. *)
Owners(g, p) == {m \in g.members : p \in Held(CurrentOf(g, m))}

-----------------------------------------------------------------------------
(* Group epoch (KIP "Group Epoch - Trigger a rebalance"; ref subscriptions.py) *)

NextEpoch(epoch) == epoch + 1
MetadataChanged(g, partitions) == g.known # partitions
EpochRecord(g, partitions) ==
    <<Put(3, "", [epoch |-> NextEpoch(g.epoch), partitions |-> partitions])>>
BumpRecords(g, must, partitions) ==
    IF must \/ MetadataChanged(g, partitions) THEN EpochRecord(g, partitions) ELSE <<>>

(* A changed subscription bumps: other topics, an expression that is resolved already, or one that *)
(* is cleared (KIP "Regex Based Subscriptions"; ref subscriptions.regex_change, heartbeat).        *)
MustBump(g, m, before, after) ==
    \/ before.topics # after.topics
    \/ g.epoch = 0
    \/ /\ before.regex # after.regex
       /\ IF after.regex = "" THEN ClearingRegexBumps \/ after.classic
          ELSE /\ after.regex \in DOMAIN g.resolved
               /\ \E h \in g.members \ {m} : g.subs[h].regex = after.regex

(* The expressions that nobody uses any more (ref subscriptions.drop_unused_regex) *)
RECURSIVE UnusedRegexes(_, _)
UnusedRegexes(g, regexes) ==
    IF regexes = <<>> THEN <<>>
    ELSE LET regex == Head(regexes)
             rest == SelectSeq(Tail(regexes), LAMBDA other : other # regex)
         IN  (IF regex = "" \/ Uses(g, regex) THEN <<>> ELSE <<Tombstone(16, regex)>>)
             \o UnusedRegexes(g, rest)

(* Removing members: by leaving, by a timeout (KIP "Heartbeat & Session"; ref membership.fence) *)
MemberTombstones(m) == <<Tombstone(8, m), Tombstone(7, m), Tombstone(5, m)>>
BumpAfterRemoval(g, partitions) == EpochRecord(g, partitions)
FenceAll(g, ms, partitions) ==
    LET deleted == Concatenate([i \in DOMAIN ms |-> MemberTombstones(ms[i])])
        regexes == [i \in DOMAIN ms |-> g.subs[ms[i]].regex]
        gone == {ms[i] : i \in DOMAIN ms}
        emptied == IF EmptiesTarget /\ gone = g.members
                   THEN <<Put(6, "", NextEpoch(g.epoch))>> ELSE <<>>
    IN  deleted \o UnusedRegexes(Replay(g, deleted), regexes) \o BumpAfterRemoval(g, partitions)
        \o emptied
Fence(g, m, partitions) == FenceAll(g, <<m>>, partitions)

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

(* Only changed targets are written; that of a `fresh` member id (a new member, or a static one *)
(* that returns with another id) always is.                                                     *)
TargetRecords(g, fresh, target) ==
    LET changed == {m \in g.members : \/ m \in fresh \/ m \notin DOMAIN g.target
                                      \/ g.target[m] # target[m]}
    IN  ForEach(changed, LAMBDA m : Put(7, m, target[m])) \o <<Put(6, "", EpochOfTarget(g))>>

-----------------------------------------------------------------------------
(* Reconciliation (KIP "Member Epoch - Reconciliation of the group"; ref reconcile.py) *)

IsFree(g, c, p) == Owners(g, p) = {} \/ (OwnPendingIsFree /\ p \in c.pending)
SubscribesToNothing(g, m) ==
    SubscriptionOf(g, m).topics = {} /\ SubscriptionOf(g, m).regex = ""

(* From 4.2 on, a topic that is not subscribed counts as not in the target.  A target of the group *)
(* epoch has subscribed topics only, unless the expression is not resolved (ref reconcile.Goal), or *)
(* the member subscribes to nothing: it can have a target all the same (docs/coordinator.md).      *)
Lost(g, m, owned) ==
    LET regex == SubscriptionOf(g, m).regex
    IN  IF MasksLostTopics /\ \/ Field(owned, "changed", FALSE) \/ g.targetEpoch < g.epoch
                              \/ regex # "" /\ regex \notin DOMAIN g.resolved
                              \/ SubscribesToNothing(g, m)
        THEN Field(owned, "lost", {}) ELSE {}

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
        target == {p \in TargetOf(g, m) : TopicOf(p) \notin Lost(g, m, owned)}
        kept == c.assigned \cap target
        lost == c.assigned \ target
        free == {p \in target \ c.assigned : IsFree(g, c, p)}
        state == IF kept \cup free = target THEN "STABLE" ELSE "UNRELEASED_PARTITIONS"
    IN  IF lost # {} /\ ~Acknowledged(owned, lost)
        THEN At(c, epoch, "UNREVOKED_PARTITIONS", kept, lost, 0)
        ELSE At(c, g.targetEpoch, state, kept \cup free, {}, GainedAt(g.targetEpoch))

(* What is no longer subscribed is given up at once (4.2; ref reconcile._drop_unsubscribed). *)
Unsubscribe(g, m, owned) ==
    LET c == CurrentOf(g, m)
        gone == {p \in c.assigned : TopicOf(p) \in Lost(g, m, owned)}
        pending == c.pending \cup gone
        stepped == IF UnsubscribingSteps THEN [c EXCEPT !.previous = c.epoch] ELSE c
    IN  IF gone = {}
        THEN IF c.pending = {} /\ Field(owned, "nothing", FALSE) THEN stepped ELSE c
        ELSE IF Acknowledged(owned, pending)
        THEN [stepped EXCEPT !.assigned = @ \ gone,
                             !.gained = [p \in Held(c) \ gone |-> c.gained[p]]]
        ELSE [stepped EXCEPT !.assigned = @ \ gone, !.pending = pending,
                             !.state = "UNREVOKED_PARTITIONS"]

Reconcile(g, m, owned) ==
    LET c == CurrentOf(g, m)
        stays == IF MasksLostTopics /\ Field(owned, "changed", FALSE)
                 THEN Unsubscribe(g, m, owned) ELSE c
    IN  CASE c.state = "STABLE" ->
               IF c.epoch = g.targetEpoch THEN stays ELSE OneStep(g, m, owned, c.epoch)
          [] c.state = "UNREVOKED_PARTITIONS" ->
               IF Acknowledged(owned, c.pending)
               THEN OneStep(g, m, owned, Min(c.epoch + EpochsAfterRevocation, g.targetEpoch))
               ELSE stays
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

Wanted(m, request) == Field(request, "subscription", Subscription(m))
Holders(g, instance) ==
    IF instance = "" THEN {} ELSE {h \in g.members : g.subs[h].instance = instance}

ErrorOf(g, m, request) ==
    LET wanted == Wanted(m, request)
        holders == Holders(g, wanted.instance)
        epochError == IF EpochIsAccepted(CurrentOf(g, m), request)
                      THEN "NONE" ELSE "FENCED_MEMBER_EPOCH"
    IN  IF request.epoch = Join /\ holders # {}   \* KIP "Static Membership (KIP-345)"
        THEN IF \A h \in holders : \/ CurrentOf(g, h).epoch = StaticLeave
                                    \/ wanted.classic \/ g.subs[h].classic
             THEN "NONE" ELSE "UNRELEASED_INSTANCE_ID"
        ELSE IF m \in g.members
        THEN IF request.epoch < 0 THEN "NONE" ELSE epochError
        ELSE IF holders # {} THEN "FENCED_INSTANCE_ID"
        ELSE IF request.epoch = Join THEN "NONE" ELSE "UNKNOWN_MEMBER_ID"

(* A static member returns: it inherits target and current assignment, at epoch 0 *)
(* (ref membership.replace_member).                                               *)
ReturnRecords(g, m, request) ==
    LET holders == IF request.epoch = Join THEN Holders(g, Wanted(m, request).instance) ELSE {}
        old == CHOOSE h \in holders : TRUE
    IN  IF holders = {} THEN <<>>
        ELSE MemberTombstones(old) \o
             <<Put(5, m, g.subs[old]), Put(7, m, TargetOf(g, old)),
               Put(8, m, [CurrentOf(g, old) EXCEPT !.epoch = 0, !.previous = 0])>>

(* A new member, a changed subscription, or something `other` that a member says of itself *)
MemberRecords(g, m, request) ==
    LET wanted == Wanted(m, request)
    IN  IF m \notin g.members \/ g.subs[m] # wanted \/ Field(request, "other", FALSE)
        THEN <<Put(5, m, wanted)>> ELSE <<>>

(* The records of a heartbeat that is not refused.  `computes`: whether the assignment interval *)
(* allows a new target (4.3).                                                                   *)
HeartbeatRecords(g, m, request, partitions, computes) ==
    LET returned == ReturnRecords(g, m, request)
        g0 == Replay(g, returned)
        before == SubscriptionOf(g0, m)
        after == Wanted(m, request)
        said == MemberRecords(g0, m, request)
        g1 == Replay(g0, said)
        dropped == IF before.regex = after.regex THEN <<>> ELSE UnusedRegexes(g1, <<before.regex>>)
        votes == /\ VotesBump /\ Field(request, "vote", FALSE)
                 /\ \/ before.votes # after.votes
                    \/ Cardinality({g1.subs[h].votes : h \in g1.members} \ {""}) > 1
        bump == BumpRecords(g1, MustBump(g0, m, before, after) \/ votes, partitions)
        g2 == Replay(g1, dropped \o bump)
        fresh == IF returned = <<>> \/ RepeatsCopiedTarget THEN {m} \ g.members ELSE {}
        owned == request.owned @@
                 [changed |-> before.topics # after.topics \/ before.regex # after.regex]
        targets == IF computes /\ MustCompute(g2)
                   THEN {TargetRecords(g2, fresh, t) : t \in Targets(g2.members, partitions)}
                   ELSE {<<>>}
    IN  {returned \o said \o dropped \o bump \o t \o ReconcileRecords(Replay(g2, t), m, owned) :
            t \in targets}

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
(* Expressions are resolved in the background: for each expression of a sequence the topics that *)
(* it matches (KIP "Regex Based Subscriptions"; ref subscriptions._resolve).                     *)
ResolveRecords(g, found, partitions) ==
    LET changed == \E i \in DOMAIN found : found[i].topics # Field(g.resolved, found[i].regex, {})
    IN  [i \in DOMAIN found |-> Put(16, found[i].regex, found[i].topics)]
        \o BumpRecords(g, changed, partitions)

(* All tombstones of a group, its members and expressions in a given order (ref tombstones.py) *)
GroupTombstones(order, regexes) ==
    LET each(key, names) == [i \in DOMAIN names |-> Tombstone(key, names[i])]
    IN  each(8, order) \o each(7, order) \o <<Tombstone(6, "")>> \o each(5, order)
        \o each(16, regexes) \o <<Tombstone(3, "")>>

(* Online migration (KIP "Supporting Online Consumer Group Upgrade"; ref upgrade.py, downgrade.py). *)
(* Upgrade: the classic assignment becomes the target and the current assignment.  Downgrade: the   *)
(* group ends, and its generation is the group epoch.                                               *)
UpgradeRecords(order, subs, epoch, partitions, targets) ==
    <<Tombstone(2, "")>> \o [i \in DOMAIN order |-> Put(5, order[i], subs[order[i]])]
    \o <<Put(3, "", [epoch |-> epoch, partitions |-> partitions])>>
    \o ForEach({order[i] : i \in DOMAIN order}, LAMBDA m : Put(7, m, targets[m]))
    \o <<Put(6, "", epoch)>>
    \o [i \in DOMAIN order |-> Put(8, order[i],
          [Nothing EXCEPT !.epoch = epoch, !.previous = epoch, !.assigned = targets[order[i]],
                          !.gained = [p \in targets[order[i]] |-> GainedAt(epoch)]])]

ClassicMembers(g) == {m \in g.members : g.subs[m].classic}
DowngradeRecords(g, order, regexes, generation, remaining) ==
    GroupTombstones(order, regexes)
    \o <<Put(2, "", [generation |-> generation, members |-> remaining])>>

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
