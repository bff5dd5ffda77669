"""A group with records in two partitions of the topic, as after the topic got more partitions: the
commands about one group answer for the partition with its latest record."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from kip848_spark.lake.chronicle import group_chronicle, partition_chronicles
from kip848_spark.lake.explanation import explain
from kip848_spark.lake.groups import describe_groups
from kip848_spark.lake.location import locate
from kip848_spark.lake.rebalances import require_group
from kip848_spark.lake.snapshot import LakeSnapshot, plain
from kip848_spark.state import kinds
from tests.captures import COMMITTED
from tests.cli.command import Command
from tests.conftest import DATA
from tests.lake.replayed_lake import control_bytes, write_replayed_lake

LATER = 47
"""A partition that the capture does not have, in which all groups go on an hour later."""
AN_HOUR = 3_600_000_000


Lakes = tuple[LakeSnapshot, LakeSnapshot]
"""One with the groups in both partitions, and one with those of the later partition."""


def records_of_one_partition() -> pa.Table:
    records = control_bytes(DATA / "kafka-4.3.1" / COMMITTED)
    return records.filter(pc.equal(records["partition"], records["partition"][0]))


def moved(records: pa.Table) -> pa.Table:
    """The same records an hour later in the other partition."""
    time = records.schema.get_field_index("timestamp")
    stamps = pc.add(records["timestamp"].cast(pa.int64()), AN_HOUR)
    found = records.set_column(time, records.field(time), stamps.cast(records.field(time).type))
    there = records.schema.get_field_index("partition")
    numbers = pa.array([LATER] * len(found), records.field(there).type)
    return found.set_column(there, records.field(there), numbers)


def lake_of(path: Path, records: pa.Table) -> LakeSnapshot:
    write_replayed_lake(path, records)
    return LakeSnapshot(locate(str(path)))


@pytest.fixture(scope="module")
def lakes(tmp_path_factory: pytest.TempPathFactory) -> tuple[LakeSnapshot, LakeSnapshot]:
    """A lake with the groups in both partitions, and one with those of the later partition."""
    records = records_of_one_partition()
    later, folder = moved(records), tmp_path_factory.mktemp("lakes")
    both = pa.concat_tables([records, later])
    return lake_of(folder / "both", both), lake_of(folder / "later", later)


def test_the_history_is_that_of_the_later_partition(lakes: Lakes) -> None:
    both, later = lakes
    groups = sorted(later.group_ids("groups"))
    assert groups
    for group in groups:
        assert require_group(both, group)["partition"] == LATER
        assert group_chronicle(both, group).described() == group_chronicle(later, group).described()


def test_the_owners_are_those_of_the_later_partition(lakes: Lakes) -> None:
    both, later = lakes
    named = pc.field("topic").is_valid()
    owned = plain(later.select("assignment_history", named))
    places = {(row["group_id"], row["topic"], row["topic_partition"]) for row in owned}
    assert places
    for group, topic, number in sorted(places)[:20]:
        for wanted in (group, None):
            found = [partition_chronicles(lake, (topic, number), wanted) for lake in (both, later)]
            assert [one.described() for one in found[0]] == [one.described() for one in found[1]]


def test_what_a_group_owned_only_in_the_earlier_partition_is_found(tmp_path: Path) -> None:
    records = records_of_one_partition()
    later = moved(records.filter(pc.is_in(records["kind"], pa.array([kinds.GROUP, kinds.MEMBER]))))
    both = lake_of(tmp_path / "both", pa.concat_tables([records, later]))
    earlier = lake_of(tmp_path / "earlier", records)
    row = plain(earlier.select("assignment_history", pc.field("topic").is_valid()))[0]
    group, place = row["group_id"], (row["topic"], row["topic_partition"])
    assert require_group(both, group)["partition"] == LATER
    (expected,) = partition_chronicles(earlier, place, group)
    for wanted in (group, None):
        found = {one.group_id: one for one in partition_chronicles(both, place, wanted)}
        assert found[group].described() == expected.described()


def test_the_description_is_that_of_the_later_partition(lakes: Lakes) -> None:
    both, later = (describe_groups(lake) for lake in lakes)
    assert both == later
    assert any(group["members_now"] for group in later)
    first = describe_groups(lakes[0], [later[0]["group_id"]])
    assert first == later[:1]


def test_the_checklist_is_that_of_the_later_partition(
    lakes: Lakes,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    group = min(lakes[1].group_ids("groups"))
    kip848 = Command(monkeypatch, capfd)
    both, later = (kip848("readiness", "--checklist", group, "--lake", lake.path) for lake in lakes)
    assert both.code == 0, both.err
    assert both.out == later.out


def test_the_rebalances_that_are_explained_are_those_of_the_later_partition(lakes: Lakes) -> None:
    both, later = lakes
    groups = sorted(later.group_ids("rebalances"))
    assert groups
    for group in groups:
        found = [explain(lake, group).rebalances for lake in (both, later)]
        assert [row["started_at"] for row in found[0]] == [row["started_at"] for row in found[1]]
        assert {row["partition"] for row in found[0]} <= {LATER}
