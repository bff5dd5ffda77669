"""Derives the state of groups from control records: the last record of a key counts, under the
rules of the coordinator.

`fold` keeps those control records of a partition that a broker would still need to load its groups:
the control state. `groups`, `members` and `assignments` turn it into tables."""
