"""An audit of an anonymized capture finds nothing in it that is not in the capture itself."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kip848_spark.checks.results import HASH, TARGETS, Tally
from kip848_spark.checks.topics import KnownTopics
from kip848_spark.wire.anonymize import NameCollector, Pseudonyms, rewrite
from kip848_spark.wire.control_plans import CONTROL_PLAN
from kip848_spark.wire.pseudonyms import ANONYMIZED, is_anonymized
from tests.audit.captured_logs import audit
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


def test_a_group_of_a_user_is_judged() -> None:
    """Only a name that nobody would choose makes the audit more lenient."""
    new = Pseudonyms.of({"group": {"orders"}}, b"x")("group", pa.array(["orders", "other"]))
    assert all(map(is_anonymized, new.to_pylist()))
    for name in ("orders", "group-000001", "group-1-anonymized", "my-group-000001-anonymized"):
        assert not is_anonymized(name)
