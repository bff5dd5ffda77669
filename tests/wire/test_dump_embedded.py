"""`dump` prints the embedded metadata of classic members as Kafka's DumpLogSegments does."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np

from kip848_spark.local.dump_log_segments import dump_segments
from kip848_spark.wire.control import ControlPlan
from kip848_spark.wire.kafka_json import json_lines
from tests.kafka_oracle import ASSIGNMENT, SUBSCRIPTION
from tests.log_segment import write_segment
from tests.wire import scalar_writer
from tests.wire.scalar_comparison import binary, plan
from tests.wire.schema_definitions import records

PARTITIONS = [{"topic": "t", "partitions": [3, 4]}]
SUBSCRIBED: dict[str, Any] = {"topics": ["t"], "ownedPartitions": PARTITIONS, "generationId": 7}
WHOLE = scalar_writer.encode_embedded(SUBSCRIPTION, 3, SUBSCRIBED)[2:]
NO_STRUCTS = scalar_writer.encode_embedded(SUBSCRIPTION, 3, {"topics": ["t"]})[2:]
OLD = scalar_writer.encode_embedded(SUBSCRIPTION, 0, {"topics": ["t"]})[2:]
GIVEN = scalar_writer.encode_embedded(ASSIGNMENT, 0, {"assignedPartitions": PARTITIONS})[2:]
NOTHING = scalar_writer.encode_embedded(ASSIGNMENT, 0, {})[2:]


def version(number: int, rest: bytes) -> bytes:
    return struct.pack(">h", number) + rest


MEMBERS = {
    "known versions": (version(3, WHOLE), version(3, GIVEN)),
    "a later version": (version(4, WHOLE), version(4, GIVEN)),
    "a later version without partitions": (version(4, NO_STRUCTS), version(4, NOTHING)),
    "more fields": (version(9, NO_STRUCTS + b"more"), version(9, GIVEN + b"more")),
    "a negative version": (version(-1, OLD), version(-1, GIVEN)),
    "the least version": (version(-(2**15), OLD), version(-(2**15), NOTHING)),
    "a negative version of a new layout": (version(-1, WHOLE), version(-1, GIVEN[:-1])),
    "one of the two": (version(4, WHOLE), version(0, GIVEN)),
    "the other one": (version(0, OLD), version(4, GIVEN)),
    "truncated": (version(3, WHOLE[:-1]), version(0, GIVEN[:-1])),
    "empty": (b"", b""),
    "one byte": (b"\xff", b"\0"),
    "not UTF-8": (version(0, OLD.replace(b"t", b"\xff")), version(0, GIVEN.replace(b"t", b"\xed"))),
    "negative lengths": (version(0, OLD[:-1] + b"\xfd"), version(0, GIVEN[:-1] + b"\xfe")),
    "negative array": (version(0, b"\xff" * 8), version(0, b"\xff" * 8)),
}


def test_dump_agrees_with_dump_log_segments(tmp_path: Path) -> None:
    record = records()[2]
    pairs = [
        (
            scalar_writer.encode_key(record, {"group": f"{protocol_type} {name}"}),
            scalar_writer.encode_value(
                record,
                3,
                {
                    "protocolType": protocol_type,
                    "members": [{"subscription": subscription, "assignment": assignment}] * 2,
                },
            ),
        )
        for protocol_type in ("consumer", "connect", "")
        for name, (subscription, assignment) in MEMBERS.items()
    ]
    theirs = list(dump_segments([write_segment(tmp_path, pairs)]))
    keys, values = (binary(list(side)) for side in zip(*pairs, strict=True))
    place = np.arange(len(pairs))
    control = ControlPlan.of(plan())
    lines = json_lines(control, place.astype(np.int32), place, place, keys, values)
    for line, kafka in zip(lines, theirs, strict=True):
        ours = json.loads(line)
        assert (ours["key"], ours["value"]) == (kafka.key, kafka.payload)
    shown = [type(kafka.data["members"][0]["subscription"]) for kafka in theirs[: len(MEMBERS)]]
    assert shown.count(dict) == 9, "nothing is compared if the tool decodes nothing"
