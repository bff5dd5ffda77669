"""An audit of an anonymized capture finds nothing in it that is not in the capture itself."""

from __future__ import annotations

import json
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kip848_spark.checks.log_entries import LogEntry
from kip848_spark.checks.results import HASH, TARGETS, Tally
from kip848_spark.checks.topics import KnownTopics
from kip848_spark.wire.anonymize import NameCollector, Pseudonyms, rewrite
from kip848_spark.wire.control_plans import CONTROL_PLAN
from kip848_spark.wire.pseudonyms import ANONYMIZED, is_anonymized
from tests.audit.captured_logs import audit
from tests.audit.faults.assignments import unbalanced_target
from tests.audit.faults.share_groups import target_emptied
from tests.audit.raw_records import entries_in
from tests.captures import COMMITTED
from tests.conftest import DATA


def anonymized(capture: str) -> pa.Table:
    table = pq.read_table(DATA / capture / COMMITTED).combine_chunks()
    keys, values = table["key"].combine_chunks(), table["value"].combine_chunks()
    names = NameCollector()
    rewrite(CONTROL_PLAN, keys, values, names)
    new = Pseudonyms.of(names.found, b"only for this test")
    keys, values, _ = rewrite(CONTROL_PLAN, keys, values, new)
    table = table.set_column(table.column_names.index("key"), "key", keys)
    return table.set_column(table.column_names.index("value"), "value", values)


def audited(table: pa.Table) -> Tally:
    return audit(entries_in(table), KnownTopics())


@pytest.mark.parametrize("capture", ["kafka-4.3.1", "shares-4.3.1", "streams-4.4.0"])
def test_no_hash_of_old_names_is_held_against_the_new_ones(capture: str) -> None:
    """Consumer, share and streams groups have hashes of their topics' names."""
    tally = audited(anonymized(capture))
    assert [f.explanation for f in tally.findings if f.check == HASH] == []
    assert tally.unverifiable[HASH, ANONYMIZED] > 30
    assert audited(pq.read_table(DATA / capture / COMMITTED)).unverifiable[HASH, ANONYMIZED] == 0


@pytest.mark.parametrize(
    "capture", ["shares-4.1.1", "streams-4.4.0", "moving-4.0.0", "upgraded-4.0.0-4.0.2-4.1.0"]
)
def test_no_order_of_old_names_is_held_against_the_new_ones(capture: str) -> None:
    """New names have another order in the hash tables that assignors iterate over."""
    tally = audited(anonymized(capture))
    assert [f"{f.check} {f.reason} {f.partition}/{f.offset}" for f in tally.findings] == []
    assert tally.unverifiable[TARGETS, ANONYMIZED] > 10
    assert tally.verified[TARGETS] > 200
    assert audited(pq.read_table(DATA / capture / COMMITTED)).unverifiable[TARGETS, ANONYMIZED] == 0


def findings_in(log: list[LogEntry], group: str) -> list[tuple[str, str, str]]:
    """Check, reason and fault of what an audit finds in the records of one group."""
    tally = audit([entry for entry in log if entry.group == group], KnownTopics())
    recorded = [json.loads(finding.recorded) for finding in tally.findings]
    return [
        (found.check, found.reason, str(one.get("fault")))
        for found, one in zip(tally.findings, recorded, strict=True)
        if isinstance(one, dict)
    ]


def test_a_target_that_is_not_even_is_found() -> None:
    """No order of the names gives it."""
    log = entries_in(anonymized("kafka-4.0.2"))
    injected = unbalanced_target(log, random.Random(3))
    assert is_anonymized(injected.group)
    assert (TARGETS, "another_target", "is not even") in findings_in(injected.log, injected.group)


def test_a_share_target_that_leaves_out_a_partition_is_found() -> None:
    log = entries_in(anonymized("shares-4.3.1"))
    edits = ((at, target_emptied(log, at, random.Random(1))) for at in range(len(log)))
    at, edited = next((at, edit) for at, edit in edits if edit is not None)
    assert is_anonymized(log[at].group)
    found = findings_in(edited, log[at].group)
    (fault,) = {fault for *kind, fault in found if kind == [TARGETS, "another_target"]}
    assert fault.startswith("leaves out ")


def test_no_name_that_a_user_chooses_counts_as_anonymized() -> None:
    """Only a name that nobody would choose makes the audit more lenient."""
    new = Pseudonyms.of({"group": {"orders"}}, b"x")("group", pa.array(["orders", "other"]))
    assert all(map(is_anonymized, new.to_pylist()))
    for name in ("orders", "group-000001", "group-1-anonymized", "my-group-000001-anonymized"):
        assert not is_anonymized(name)
