"""Control records written by hand: each function returns the columns of one record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from kip848_spark.state import kinds
from kip848_spark.wire.control_plans import CONTROL_FIELDS
from kip848_spark.wire.record_stream import POSITION_FIELDS

Row = dict[str, Any]
SCHEMA = pa.schema([*POSITION_FIELDS.items(), *CONTROL_FIELDS.items()])
PARTITION = 7
TOPIC = "topic-a"


def record(kind: str, value: Row | None, group: str = "g", **key: Any) -> Row:
    row = {"kind": kind, "group_id": group, "tombstone": value is None, **key}
    return row if value is None else row | {kind: value}


def epoch(number: int | None, hash_: int = 1, group: str = "g") -> Row:
    value = None if number is None else {"epoch": number, "metadata_hash": hash_}
    return record(kinds.GROUP, value, group)


def member(id_: str, topics: Iterable[str] = ("a",), group: str = "g", **fields: Any) -> Row:
    value = {
        "client_id": f"client-{id_}",
        "client_host": "/10.0.0.1",
        "subscribed_topic_names": list(topics),
        "subscribed_topic_regex": "",
        "rebalance_timeout_ms": 60_000,
        **fields,
    }
    return record(kinds.MEMBER, value, group, member_id=id_)


def no_member(id_: str, group: str = "g") -> list[Row]:
    """The tombstones of a member that is gone."""
    of_member = (kinds.CURRENT, kinds.TARGET, kinds.MEMBER)
    return [record(kind, None, group, member_id=id_) for kind in of_member]


def target_epoch(number: int | None, group: str = "g") -> Row:
    value = None if number is None else {"assignment_epoch": number, "assignment_timestamp": 0}
    return record(kinds.TARGET_EPOCH, value, group)


def places(numbers: Iterable[int]) -> list[Row]:
    numbers = list(numbers)
    return [{"topic_id": TOPIC, "partitions": numbers}] if numbers else []


def target(id_: str, numbers: Iterable[int], group: str = "g") -> Row:
    return record(kinds.TARGET, {"topic_partitions": places(numbers)}, group, member_id=id_)


def current(
    id_: str,
    at: int,
    numbers: Iterable[int],
    pending: Iterable[int] = (),
    state: int = 0,
    before: int = 0,
    group: str = "g",
) -> Row:
    value = {
        "member_epoch": at,
        "previous_member_epoch": before,
        "state": state,
        "assigned_partitions": places(numbers),
        "partitions_pending_revocation": places(pending),
    }
    return record(kinds.CURRENT, value, group, member_id=id_)


def regex(expression: str, topics: Iterable[str] | None, group: str = "g") -> Row:
    value = None if topics is None else {"topics": list(topics), "version": 1, "timestamp": 0}
    return record(kinds.REGEX, value, group, regular_expression=expression)


def classic(generation: int, members: dict[str, Row], group: str = "g", **fields: Any) -> Row:
    """``members``: partitions, and optionally instance and topics, by member id."""
    rows = [
        {
            "member_id": id_,
            "group_instance_id": one.get("instance"),
            "client_id": "c",
            "client_host": "/h",
            "consumer_subscription": {"version": 1, "topics": list(one.get("topics", ("a",)))},
            "consumer_assignment": {
                "version": 1,
                "assigned_partitions": [{"topic": "a", "partitions": list(one["partitions"])}],
            },
        }
        for id_, one in members.items()
    ]
    value = {"protocol_type": "consumer", "generation": generation, "protocol": "range"}
    return record(kinds.CLASSIC, value | {"members": rows} | fields, group)


@dataclass
class Log:
    """Records in the order of the log. An operation is written at a time in ms."""

    rows: list[Row] = field(default_factory=list)
    offset: int = 0

    def write(self, at: int, *records: Row | list[Row]) -> Log:
        for one in _flat(records):
            self.rows.append({"offset": self.offset, "timestamp": at * 1_000, **one})
            self.offset += 1
        self.offset += 1  # something else is between two operations
        return self

    def gap(self, length: int = 5) -> Log:
        self.offset += length
        self.rows.append({"offset": self.offset - 1, "timestamp": None, "kind": kinds.GAP})
        return self

    def table(self) -> pa.Table:
        rows = [{"partition": PARTITION, "tombstone": False, **row} for row in self.rows]
        return pa.Table.from_pylist(rows, schema=SCHEMA)


def _flat(records: Iterable[Row | list[Row]]) -> Iterator[Row]:
    for one in records:
        yield from one if isinstance(one, list) else [one]


def stable_group(first: int = 1) -> Log:
    """Members m1 and m2 own two partitions each, at epoch ``first`` + 1."""
    return (
        Log()
        .write(
            1_000,
            member("m1"),
            epoch(first),
            target("m1", range(4)),
            target_epoch(first),
            current("m1", first, range(4)),
        )
        .write(
            2_000,
            member("m2"),
            epoch(first + 1),
            target("m1", (0, 1)),
            target("m2", (2, 3)),
            target_epoch(first + 1),
            current("m2", first + 1, (), state=2),
        )
        .write(2_500, current("m1", first, (0, 1), (2, 3), state=1, before=first))
        .write(3_500, current("m1", first + 1, (0, 1), before=first))
        .write(4_000, current("m2", first + 1, (2, 3), before=first + 1))
    )
