"""Control records to the state they left behind: last-writer logic under the coordinator's rules.

`fold` keeps, of all control records of a partition, those that a broker would still need to load
its groups. `state` turns what is kept into groups, members and assignments.
"""
