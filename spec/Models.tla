------------------------------ MODULE Models -------------------------------
(* Sizes for the .cfg files. *)
EXTENDS Properties

TwoMembers == <<"a", "b">>
ThreeMembers == <<"a", "b", "c">>
(* One static client: "s2" is its member id after a restart. *)
StaticAndDynamic == <<"s1", "s2", "b">>

NoInstances == [m \in Members |-> ""]
InstanceOfS == [m \in Members |-> IF m \in {"s1", "s2"} THEN "s" ELSE ""]
=============================================================================
