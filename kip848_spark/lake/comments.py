"""A comment for each column of each table, which `DESCRIBE TABLE` shows."""

from __future__ import annotations

_INTERVAL = {
    "valid_from": "Time of the record that made the row true (UTC)",
    "valid_to": "Time of the record that ended it (UTC); null if the row is still true",
    "from_offset": "Offset of the record that made the row true",
    "to_offset": "Offset of the record that ended it; null if the row is still true",
    "known_from": "Equal to valid_from if the row may have been true earlier, else null",
    "known_to": "Equal to valid_to if the row may have been true for longer, else null",
}

_GROUP = {
    "type": "classic, consumer, share or streams",
    "state": "Empty, Assigning, Reconciling or Stable",
    "protocol_type": "Protocol type of a classic group; empty if it only commits offsets",
    "protocol": "Assignor that the members of a classic group chose",
    "epoch": "Group epoch; the generation of a classic group",
    "target_epoch": "Epoch of the target assignment",
    "metadata_hash": "Hash of the subscribed topics' metadata (Kafka 4.1 and later)",
    "members": "Number of members",
    "last_offset": "Offset of the group's last record that is still in effect",
    "updated_at": "Timestamp of the record at last_offset (UTC)",
}

_MEMBER = {
    "instance_id": "Instance id of a static member; null for a dynamic one",
    "rack_id": "Rack of the client",
    "client_id": "client.id of the client",
    "client_host": "Address from which the client connected",
    "subscribed_topics": "Names of the subscribed topics, sorted",
    "subscribed_regex": "Regular expression of a subscription by pattern",
    "member_epoch": "Member epoch; null in a classic group",
    "previous_member_epoch": "Previous member epoch; null in a classic group",
    "member_state": "stable, unrevoked_partitions, unreleased_partitions or unknown",
    "is_classic": "True if the member uses the classic protocol",
}

_ASSIGNMENT = {
    "role": "assigned, pending_revocation or target",
    "assignment_epoch": "Epoch at which the member got the partition (Kafka 4.3 and later)",
}

COMMENTS: dict[str, dict[str, str]] = {
    "*": {
        "partition": "Partition of __consumer_offsets; all records of a group are in the same one",
        "offset": "Offset of the record in that partition of __consumer_offsets",
        "timestamp": "Time at which the broker appended the record (UTC)",
        "run_id": "Run that wrote the row; see the table runs",
        "cluster_id": "Id of the Kafka cluster; null if it is not known",
        "group_id": "Id of the consumer group",
        "dialect": "Dialect of the record layouts used to decode it",
        "regular_expression": "Regular expression of a record that holds its matching topics",
        "member_id": "Id of the group member",
        "kind": "Kind of record, by its key type",
        "tombstone": "True if the value is null, which deletes the key",
        "topic": "Name of the user's topic; null if only its id is known",
        "topic_id": "Id of the user's topic in Kafka's base64 form; null if it is not known",
        "topic_partition": "Partition of the user's topic",
        "committed_offset": "Committed offset: the next one that the group will read",
        "leader_epoch": "Leader epoch sent with the commit; -1 if there was none",
        "metadata": "Text that the client sent with the commit",
        "commit_timestamp": "Time of the commit (UTC)",
        "expire_timestamp": "Time at which the commit expires (UTC); null if it does not set one",
        "assignor": "Server-side assignor: the one the group uses, or the one the member requests",
    },
    "records": {
        "key_type": "Key type: the number at the start of the key; null if the key is too short",
        "value_version": "Version of the value's layout; null for a tombstone",
        "error": "Why and at which byte decoding failed; null if the record was decoded",
        "unknown_tags": "Number of tagged fields that this program does not know and skipped",
        "raw_key": "Bytes of the key; always kept for control, unknown and undecodable records",
        "raw_value": "Bytes of the value; kept wherever raw_key is",
        "missing_before": "Number of offsets missing immediately before this record; null if none",
        "gap_cause": "Cause of the missing offsets; see the table gaps",
        "size": "Number of bytes of key and value; null in rows of versions that did not store it",
        "inferred": (
            "True for a tombstone that the log cleaner removed before it was read: its key is no "
            "longer in the topic. Its offset is one of those that are missing there; null otherwise"
        ),
    },
    "group_records": {},
    "control_state": {
        "dialect": "Dialect that decodes the bytes; null in a row for a group's newest commit",
        "raw_key": "Bytes of the key",
        "raw_value": "Bytes of the value",
    },
    "gaps": {
        "first_offset": "First missing offset",
        "last_offset": "Last missing offset",
        "cause": (
            "transaction: some key occurs twice before the gap, so the log cleaner has not reached "
            "it; compaction: no key does, and most earlier offsets are missing; unknown: neither"
        ),
    },
    "commit_summaries": {
        "day": "UTC day of the records' timestamps",
        "commits": "Number of commits that the row stands for, without tombstones",
        "tombstones": "Number of tombstones that the row stands for",
        "bytes": "Number of bytes of their keys and values",
        "first_offset": "Offset of the first record that the row stands for",
        "first_timestamp": "Timestamp of the first record (UTC)",
        "first_committed": "Committed offset of the first record; null if it is a tombstone",
        "offset": "Offset of the last record that the row stands for",
        "timestamp": "Timestamp of the last record (UTC)",
        "tombstone": "True if the last record is a tombstone",
        "topic_id": "Topic id of all commits that the row stands for; null if they have none",
        "first_commit_offset": "Offset of the first record that is no tombstone",
        "first_commit_timestamp": "Timestamp of that record (UTC)",
        "last_commit_offset": "Offset of the last record that is no tombstone",
        "last_commit_timestamp": "Timestamp of that record (UTC)",
        "rewinds": "Commits lower than the one before them, in offset order; null if there is none",
    },
    "offset_activity": {
        "day": "UTC day of the records' timestamps",
        "commits": "Number of commits, without tombstones",
        "tombstones": "Number of tombstones",
        "bytes": "Number of bytes of the keys and values of these records",
        "first_offset": "Offset of the first of these records",
        "last_offset": "Offset of the last of these records",
        "rewinds": "Number of commits that were lower than the one before them",
        "largest_rewind": "Largest distance by which a commit went back; 0 if there is none",
    },
    "rewinds": {
        "offset": "Offset of the commit that went back",
        "from_committed": "Committed offset before it",
        "to_committed": "Committed offset of the commit, which is lower",
        "at": "Timestamp of the commit (UTC)",
        "owner": "Member that owned the partition then; null if none did, or if it is not known",
        "run_id": "Run that read the commit; see the table runs",
    },
    "groups": _GROUP,
    "members": _MEMBER,
    "assignments": _ASSIGNMENT,
    "offsets": {},
    "group_history": {**_GROUP, **_INTERVAL},
    "member_history": {**_MEMBER, **_INTERVAL},
    "assignment_history": {**_ASSIGNMENT, **_INTERVAL},
    "rebalances": {
        "type": "consumer, share, streams or classic",
        "epoch": "Group epoch that began the rebalance; the generation of a classic group",
        "started_at": "Time of the record that raised the group epoch (UTC)",
        "converged_at": "Time at which the group was Stable again (UTC); null if it was not",
        "duration_ms": "From started_at to converged_at (ms); null in a classic group",
        "causes": "What raised the group epoch, sorted; see docs/rebalances.md",
        "likely": (
            "expired if all members that are gone were away after a static leave; else null. "
            "Only kip848 explain looks at commits"
        ),
        "joined": "Members that are new in this epoch",
        "left": "Members that are gone in this epoch",
        "trigger_members": "Members whose change raised the group epoch",
        "members": "Number of members after the change",
        "partitions_moved": "Partitions that changed from one member to another",
        "minimal_moves": "Fewest moves for which every member has as many partitions as it got",
        "revoked": "Partitions that members of the group had to give up",
        "blocked_members": "Members that waited for partitions of others",
        "slowest_member": "Member that took longest to give up its partitions",
        "slowest_ms": "Time that it took (ms)",
        "unowned_ms": (
            "Time without an owner (ms), until the next epoch at most, summed over the partitions"
        ),
        "superseded_by": "Group epoch, or after a downgrade generation, that followed before the "
        "group was Stable; null if none",
        "episode_id": "Rebalances of a group that overlap have the same episode",
        "outcome": "converged, superseded, group_deleted, open or cut_by_gap",
        "complete": "True if the records from before the start to the end were all read",
        "evidence": "Offsets of the records that this row is based on",
        "from_offset": "Offset of the record that raised the group epoch",
        "to_offset": "Offset of the last record of it; null while a later run may change the row",
    },
    "readiness": {
        "type": "classic, consumer, share or streams",
        "state": "State of the group at the end of the run",
        "protocol": "Assignor that the members of a classic group chose",
        "members": "Number of members",
        "classic_members": "Number of members that use the classic protocol",
        "verdict": (
            "ready, ready_with_warnings, blocked, already_migrated, migrating, not_applicable or "
            "unknown; see docs/readiness.md"
        ),
        "blockers": "Rules by which the brokers refuse a member of the new protocol",
        "warnings": "Rules by which something changes for the group",
        "unknowns": "Rules about what the records do not show",
        "notes": "Rules that only inform",
        "details": "What the records show for these rules, by rule",
        "evidence": "Offsets of the records in the partition, as text",
        "likely_client": "Client libraries, guessed; null if nothing hints at one",
        "likely_client_from": "The id from which the library was guessed",
        "risk": "low, medium or high: the highest risk of the rules; null without one",
        "wave": "The order to go in, from 0; null if the group does not or can't move",
        "rebalances": "Rebalances in the 30 days before the run",
        "cheaper_rebalances": "Those of them that would be cheaper in the new protocol",
        "avoidable_stops": "Members that stopped in them and would not have to (sum, at least)",
        "avoidable_unowned": (
            "Partitions that had no owner for a time and would have had one (sum, at least)"
        ),
        "partitions": "Partitions of the subscribed topics; null if the group was not simulated",
        "uniform_moves": "Partitions that would move to another member with uniform",
        "uniform_rounds": "Heartbeats of each member until all own their targets, with uniform",
        "range_moves": "Partitions that would move to another member with range",
        "range_rounds": "Heartbeats of each member until all own their targets, with range",
        "assumed_topics": "Topics whose number of partitions was taken from the assignment",
    },
    "topics": {
        "partitions": "Number of partitions of the topic",
        "racks": "Racks of the replicas of each partition, in the order of the partitions",
    },
    "agreement": {
        "check": "Name of the check; see docs/audit.md",
        "verified": "Number of decisions and rows that the check confirmed",
        "unverifiable": "Number of decisions and rows that could not be checked; see reasons",
        "disagreed": "Number of decisions and rows that are wrong; see the table findings",
        "reasons": "Why something could not be checked, or how it was checked, and how often",
    },
    "findings": {
        "finding_id": "Id of the finding; the same in every run over the same records",
        "caused_by": "Id of the finding that this one follows from; null if it follows from none",
        "check": "Check that found it; see docs/audit.md",
        "reason": "Kind of finding within the check, such as group_epoch; see docs/audit.md",
        "severity": "info, warning, error or critical, by the possible consequences",
        "member_id": "Id of the group member; null if the finding is about the group",
        "offset": "Offset of the record that shows the problem; null if no single record does",
        "timestamp": "Time of that record (UTC): the start of the problem",
        "expected": "Expected value (JSON)",
        "recorded": "Recorded value (JSON)",
        "explanation": (
            "Five lines: what is wrong, what was expected and recorded (only what differs), "
            "what it means for the consumers, what to do"
        ),
    },
    "audited_groups": {
        "offset": "Offset of the last record of the group that the audit has checked",
        "timestamp": "Time of that record (UTC)",
        "rules": "Hash of the rules of the audit: an audit by other rules does not use the row",
        "saved": (
            "What the audit knows of the group after that record (JSON), from which a later audit "
            "goes on; for the program alone"
        ),
    },
    "runs": {
        "run_id": "Id of the run; the ids of later runs sort later",
        "outcome": "planned: the run has not finished; done: it has, and readers see its tables",
        "source": "Source of the records",
        "topic": "Topic that was read",
        "topic_id": "Id of that topic; null if it is not known",
        "dialect": "Dialect of the record layouts used to decode it",
        "from_offsets": "First offset of the run, by partition",
        "to_offsets": "Offset after the last one of the run, by partition",
        "replayed_through": "Latest run whose records are in the state tables",
        "records_read": "Records read: decoded + tombstones + unknown + quarantined",
        "decoded": "Decoded records with a value",
        "tombstones": "Decoded records without a value",
        "unknown": "Records of a key type or value version that this program does not know",
        "quarantined": "Records that could not be decoded",
        "missing": "Offsets of the range without a record: records_read + missing is its length",
        "errors": "Number of records that were not decoded, by reason",
        "unknown_tags": "Number of unknown tagged fields that were skipped, by kind of record",
        "table_versions": "Delta version of each table at the end of the run",
        "started_at": "Start of the run (UTC)",
        "finished_at": "End of the run (UTC)",
        "durations_ms": "Duration of each step (ms)",
        "open_offsets": (
            "Number of offsets behind the last stable offset, which open transactions hold back, "
            "by partition; null if the run did not read from a cluster"
        ),
        "kept_since": (
            "Time from which on the history is complete (UTC): `maintain --keep` has removed older "
            "history, in this run or before; null if it never has"
        ),
        "kept_from": (
            "Offset before which `maintain --keep` has left only the newest record of each key, by "
            "partition; null if it never has"
        ),
        "removed": (
            "Number of rows of records that this run has removed, by the run that had read them; "
            "null if there are none"
        ),
        "broker_line": (
            "Line of Kafka releases, such as 4.3, that all brokers answered; null if no cluster "
            "was asked or the brokers differ"
        ),
        "formats": (
            "Record formats by which the records were decoded: the key types and the value "
            "versions of each. A version that knows more decodes the unknown records again"
        ),
        "inferred": (
            "Number of tombstones that this run did not read, but inferred (records.inferred); "
            "null if there are none"
        ),
    },
}
