"""Rows of `members` against what real brokers wrote of the members of each type of group."""

from __future__ import annotations

import pyarrow.compute as pc

from kip848_spark.state.fold import Fold
from kip848_spark.state.members import members
from tests.audit.raw_records import control_rows
from tests.captures import DUMP, RECORDS, read_dump
from tests.conftest import DATA

CAPTURE = DATA / "share-streams-4.3.1"
STATES = {
    "8": {0: "stable", 1: "unrevoked_partitions", 2: "unreleased_partitions"},
    "14": {0: "stable"},
    "22": {1: "stable", 2: "unrevoked_partitions", 3: "unreleased_partitions"},
}
"""What the state in a member's current assignment means, by key type: brokers number the states of
streams members from 1."""


def test_the_state_of_a_member_is_what_its_last_record_says() -> None:
    """After each record of a current assignment, by Kafka's own reading of the log."""
    control = control_rows(CAPTURE / RECORDS)
    checked = set()
    for record in read_dump(CAPTURE / DUMP):
        key, payload = record["key"], record["payload"]
        if key["type"] not in STATES or payload is None:
            continue
        upto = control.filter(
            (pc.field("partition") == record["partition"])
            & (pc.field("offset") <= record["offset"])
            & (pc.field("group_id") == key["data"]["groupId"])
        )
        fold = Fold()
        fold.add(upto)
        rows = {row["member_id"]: row for row in members(fold.carried()).to_pylist()}
        state = payload["data"]["state"]
        assert rows[key["data"]["memberId"]]["member_state"] == STATES[key["type"]][state]
        checked.add((key["type"], state))
    assert {("14", 0), ("22", 1)} < checked
