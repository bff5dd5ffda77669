"""The dialect of a topic, told from its records."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kip848_spark.errors import UsageError
from kip848_spark.wire.control import ControlPlan, control_columns
from kip848_spark.wire.decode import DecodePlan
from kip848_spark.wire.definitions import load_shipped
from kip848_spark.wire.dialects import (
    AUTO,
    candidate_plans,
    check_dialect,
    choose_dialect,
    count_readable,
    load_plan,
)
from tests.captures import RECORDS
from tests.wire.schema_definitions import records
from tests.wire.strategies import Bulk

DIALECT_OF = {"shipped": "shipped", "kip": "kip", "kip_ea37": "kip", "kip_draft": "kip-draft"}


def written_in(folder: str, count: int = 40) -> tuple[pa.Array, pa.Array]:
    """Records of key types 3 to 8, by the scalar encoder."""
    bulk = Bulk(11, unknown_tags=False)
    pairs = [
        sample.encoded()
        for key_type, record in records(folder).items()
        if 3 <= key_type <= 8
        for sample in bulk.samples(record, 0, count)
    ]
    keys, values = zip(*((key, value) for key, value in pairs if value), strict=True)
    return pa.array(keys, pa.binary()), pa.array(values, pa.binary())


@pytest.mark.parametrize("folder", DIALECT_OF)
def test_each_is_told_from_its_records(folder: str) -> None:
    keys, values = written_in(folder)
    read = count_readable(candidate_plans(AUTO), keys, values)
    assert read[folder] == len(keys)
    choice = choose_dialect(read, len(keys))
    assert choice.variant == folder
    assert f"{folder} {len(keys)}" in choice.evidence


def test_a_real_topic(capture: Path) -> None:
    table = pq.read_table(capture / RECORDS).combine_chunks()
    telling = [3 <= int.from_bytes(key[:2]) <= 8 for key in table["key"].to_pylist()]
    table = table.filter(pa.array(telling)).drop_null()
    keys, values = table["key"].combine_chunks(), table["value"].combine_chunks()
    choice = choose_dialect(count_readable(candidate_plans(AUTO), keys, values), len(keys))
    assert choice.variant == "shipped"


def test_a_few_damaged_records_do_not_matter() -> None:
    assert choose_dialect({"shipped": 997, "kip": 400, "kip_draft": 3}, 1000).variant == "shipped"


def test_no_choice_where_the_evidence_is_none() -> None:
    with pytest.raises(UsageError, match="cannot be detected"):
        choose_dialect({"shipped": 10, "kip": 10, "kip_ea37": 10, "kip_draft": 0}, 10)
    with pytest.raises(UsageError, match="No dialect fits"):
        choose_dialect({"shipped": 80, "kip": 40}, 100)


def test_variants_of_one_dialect_need_not_be_told_apart() -> None:
    assert choose_dialect({"kip": 10, "kip_ea37": 10}, 10).variant == "kip"


def test_nothing_to_tell_by() -> None:
    assert choose_dialect(dict.fromkeys(candidate_plans(AUTO), 0), 0).variant == "shipped"


def test_unknown_dialects_are_refused() -> None:
    check_dialect("auto")
    check_dialect("kip-draft")
    with pytest.raises(UsageError, match="kip-old"):
        check_dialect("kip-old")


@pytest.mark.parametrize("folder", ["kip", "kip_ea37", "kip_draft"])
def test_another_dialect_fits_into_the_tables_columns(folder: str) -> None:
    """What the columns have too is kept: the epoch of a group, for one."""
    fields = ControlPlan.of(DecodePlan.of(load_shipped())).fields()
    keys, values = written_in(folder, 5)
    columns = control_columns(ControlPlan.of(load_plan(folder)), fields, keys, values)
    assert {name: array.type for name, array in columns.items()} == fields
    groups = [row for row in columns["consumer_group_metadata"].to_pylist() if row is not None]
    assert len(groups) >= 4
    assert all(isinstance(row["epoch"], int) for row in groups)
    assert set(columns["dialect"].to_pylist()) == {folder}
