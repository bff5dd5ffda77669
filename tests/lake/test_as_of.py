"""The state of a lake at any moment, from the history tables."""

from __future__ import annotations

import warnings
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from kip848_spark import Lake
from kip848_spark.errors import LakeError, NotFoundError, UsageError
from kip848_spark.lake.history import StateAt, UnknownGroups, state_at
from kip848_spark.lake.ledger import FORGET, VACUUM
from kip848_spark.lake.location import locate
from kip848_spark.lake.snapshot import LakeSnapshot
from kip848_spark.lake.sql.engine import DuckDBEngine
from kip848_spark.lake.tables import TABLES
from tests.insight.story_rows import GROUP, at, group
from tests.lake.billing_lake import BACK, write_billing_lake
from tests.lake.written_lake import FIRST_RUN, write_lake, write_run


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return Lake(write_billing_lake(tmp_path_factory.mktemp("as-of") / "lake"))


def epoch(lake: Lake, seconds: float) -> int | None:
    rows = lake.groups(as_of=at(seconds)).to_pylist()
    return next((row["epoch"] for row in rows if row["group_id"] == GROUP), None)


def test_intervals_begin_with_their_time_and_end_before_it(lake: Lake) -> None:
    assert epoch(lake, -0.000001) == 41
    assert epoch(lake, 0) == 42
    assert epoch(lake, 83.999999) == 42
    assert epoch(lake, 84) == 43


def test_the_columns_are_those_of_the_state_tables(lake: Lake) -> None:
    for name in ("groups", "members", "assignments", "offsets"):
        found = lake.table(name, as_of=at(10))
        assert found.column_names == list(TABLES[name].fields), name
        assert found.schema.types == list(TABLES[name].fields.values()), name
    (row,) = (row for row in lake.groups(as_of=at(40)).to_pylist() if row["group_id"] == GROUP)
    assert (row["last_offset"], row["updated_at"]) == (111, at(38.2))


def test_members_and_assignments(lake: Lake) -> None:
    before = lake.members(groups=[GROUP], as_of=at(-1)).to_pylist()
    assert sorted(row["client_id"] for row in before) == ["worker-1", "worker-2", "worker-3"]
    during = lake.assignments(groups=[GROUP], as_of=at(10)).to_pylist()
    pending = [row["topic_partition"] for row in during if row["role"] == "pending_revocation"]
    assert sorted(pending) == [7, 9]
    assert not any(row["role"] == "assigned" for row in during)


def test_committed_offsets_are_the_newest_until_then(lake: Lake) -> None:
    def committed(seconds: float) -> dict[int, int]:
        rows = lake.offsets(groups=[GROUP], as_of=at(seconds)).to_pylist()
        return {row["topic_partition"]: row["committed_offset"] for row in rows}

    assert committed(-95) == {}
    assert committed(-80) == {3: 1002}
    assert committed(0) == {3: 1010, 7: 500}
    assert committed(19) == {3: 1010, 7: 500}
    assert committed(20) == {3: 1010, 7: 510, 9: 77}
    assert committed(90) == {3: 1010, 9: 77}, "a tombstone deletes the offset"
    everything = lake.offsets(as_of=at(90)).to_pylist()
    assert {row["group_id"] for row in everything} == {GROUP, "reports"}


def test_a_description_has_the_members_and_offsets_of_that_time(lake: Lake) -> None:
    (found,) = lake.describe([GROUP], as_of=at(10))
    assert found["state"] == "Reconciling"
    assert [m["client_id"] for m in found["members_now"]] == ["worker-1", "worker-2"]
    assert [
        place["topic_partition"] for place in found["members_now"][0]["pending_revocation"]
    ] == [
        7,
        9,
    ]
    assert [o["committed_offset"] for o in found["offsets"]] == [1010, 500]


def test_after_the_last_run_it_is_the_current_state(lake: Lake) -> None:
    assert lake.groups(as_of="now").equals(lake.groups())
    assert lake.groups(as_of=FIRST_RUN).equals(lake.groups())
    after = lake.members(as_of=at(3000)).to_pylist()
    assert BACK in {row["member_id"] for row in after}


def test_a_group_that_was_not_there_yet_or_any_more(lake: Lake) -> None:
    assert lake.describe(["old-group"], as_of=at(-1000))[0]["epoch"] == 5
    with pytest.raises(
        NotFoundError, match=r"old-group did not exist at 2026-11-20 02:14:07"
    ) as gone:
        lake.describe(["old-group"], as_of=at(0))
    assert gone.value.hint == "It existed until 2026-11-20 02:00:00 UTC."
    with pytest.raises(
        NotFoundError, match=r"reports did not exist at 2026-11-20 01:40:27"
    ) as early:
        lake.describe(["reports"], as_of=at(-2020))
    assert early.value.hint == "Its first record is of 2026-11-20 01:40:47 UTC."
    with pytest.raises(NotFoundError, match="no group order-billing") as unknown:
        lake.describe(["order-billing"], as_of=at(0))
    assert unknown.value.hint == "Did you mean orders-billing?"


def test_before_the_first_record_nothing_is_known(lake: Lake) -> None:
    with pytest.raises(NotFoundError, match=r"Nothing is known of 2026-11-20 01:00:00") as raised:
        lake.groups(as_of="2026-11-20T01:00")
    assert raised.value.hint == "The lake's history begins at 2026-11-20 01:24:07 UTC."


def unknown(lake: Lake, seconds: float) -> UnknownGroups:
    state = state_at(lake.snapshot(), at(seconds))
    assert isinstance(state, StateAt)
    return state.unknown_groups()


def test_what_precedes_a_known_point_is_not_denied(tmp_path: Path) -> None:
    """The log cleaner had removed the records of `late` before they were read."""
    rows = [
        group(7, 100, None, (50, None)) | {"group_id": "late", "known_from": at(100)},
        group(3, -3000, None, (2, None)) | {"group_id": "whole", "partition": 1},
    ]
    write_lake(tmp_path / "lake", {"group_history": rows, "groups": rows})
    lake = Lake(tmp_path / "lake")
    assert [row["group_id"] for row in lake.groups(as_of=at(0)).to_pylist()] == ["whole"]
    with pytest.raises(NotFoundError, match=r"late is not known before 2026-11-20 02:15:47 UTC"):
        lake.describe(["late"], as_of=at(0))
    assert lake.describe(["late"], as_of=at(100))[0]["epoch"] == 7


def test_what_follows_a_gap_is_not_denied(tmp_path: Path) -> None:
    """Records are missing after 60 s, and the state is known again at 100 s. Of the two groups that
    existed before, one exists then."""
    rows = [
        group(7, 0, 60, (20, 40)) | {"group_id": "ends", "known_to": at(60)},
        group(3, 0, 60, (10, 40)) | {"group_id": "stays", "known_to": at(60)},
        group(4, 100, None, (70, None)) | {"group_id": "stays", "known_from": at(100)},
        group(1, 0, None, (2, None)) | {"group_id": "other", "partition": 1},
        group(2, -50, -20, (1, 5)) | {"group_id": "deleted"},
        group(0, 130, None, (90, None)) | {"group_id": "created"},
    ]
    present = [rows[2], rows[3], rows[5]]
    write_lake(tmp_path / "lake", {"group_history": rows, "groups": present})
    lake = Lake(tmp_path / "lake")
    for name in ("deleted", "created"):
        for seconds in (-10, 50, 110):
            with pytest.raises(NotFoundError, match=f"{name} did not exist"):
                lake.describe([name], as_of=at(seconds))
        with pytest.raises(NotFoundError, match=f"history of the group {name} is not known"):
            lake.describe([name], as_of=at(70))
    assert lake.describe(["ends"], as_of=at(50))[0]["epoch"] == 7
    assert unknown(lake, 50) == UnknownGroups(0, None, 0)
    assert unknown(lake, 70) == UnknownGroups(1, at(100), 1)
    assert unknown(lake, 120) == UnknownGroups(0, None, 0)
    with pytest.raises(NotFoundError, match=r"history of the group ends is not known at .*:15:17"):
        lake.describe(["ends"], as_of=at(70))
    with pytest.raises(NotFoundError, match=r"ends did not exist at 2026-11-20 02:16:07"):
        lake.describe(["ends"], as_of=at(120))
    with pytest.raises(NotFoundError, match=r"stays is not known before 2026-11-20 02:15:47"):
        lake.describe(["stays"], as_of=at(70))


def test_the_answer_outlasts_vacuum(tmp_path: Path) -> None:
    """Three runs, and then old versions of the tables are deleted."""
    path = write_billing_lake(tmp_path / "lake")
    for hours in (1, 2):
        tables = {"groups": [group(50 + hours, 0, None, (200, None))]}
        write_run(path, tables, finished_at=FIRST_RUN + timedelta(hours=hours), mode="overwrite")
    lake = Lake(path)
    before = [lake.table(name, as_of=at(10)) for name in ("groups", "members", "assignments")]
    for name in TABLES:
        DeltaTable(path / name).vacuum(0, dry_run=False, enforce_retention_duration=False)
    after = [lake.table(name, as_of=at(10)) for name in ("groups", "members", "assignments")]
    assert [table.num_rows for table in after] == [2, 2, 26]
    assert all(one.equals(other) for one, other in zip(before, after, strict=True))
    assert epoch(lake, 40) == 42


def test_a_lake_of_an_earlier_version_knows_the_ends_of_runs(tmp_path: Path) -> None:
    history = ("group_history", "member_history", "assignment_history", "rebalances")
    path = write_billing_lake(tmp_path / "lake", without=history)
    later = FIRST_RUN + timedelta(days=1)
    write_run(
        path, {"groups": [group(50, 0, None, (200, None))]}, finished_at=later, mode="overwrite"
    )
    lake = Lake(path)
    with pytest.warns(UserWarning, match="no history yet") as warned:
        found = lake.groups(as_of=FIRST_RUN + timedelta(hours=1)).to_pylist()
    assert "2026-11-22 04:00:00 UTC" in str(warned[0].message)
    assert {row["epoch"] for row in found} == {43, 0}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert lake.groups(as_of=later).num_rows == 1
    with pytest.raises(LakeError, match="No run of the lake"):
        lake.groups(as_of=at(0))


def test_times_that_are_refused(lake: Lake) -> None:
    for text, sentence in (("02:14", "names no day"), ("2999-01-01", "is in the future")):
        with pytest.raises(UsageError, match=sentence):
            lake.groups(as_of=text)


@pytest.mark.parametrize("step", [VACUUM, FORGET])
def test_versions_that_maintenance_has_deleted(step: str, tmp_path: Path) -> None:
    path = tmp_path / "lake"
    write_lake(path, {"groups": [{"group_id": "before"}]})
    (old,) = (path / "groups").glob("*.parquet")
    later = FIRST_RUN + timedelta(days=1)
    rows = {"groups": [{"group_id": "after"}]}
    write_run(path, rows, finished_at=later, mode="overwrite", run={"durations_ms": {step: 1}})
    old.unlink()
    assert LakeSnapshot(locate(str(path))).group_ids("groups") == {"after"}
    with pytest.raises(LakeError, match="has deleted old versions of the tables"):
        LakeSnapshot(locate(str(path)), FIRST_RUN).group_ids("groups")
    with pytest.raises(LakeError, match="has deleted old versions of the tables"):
        DuckDBEngine(LakeSnapshot(locate(str(path)), FIRST_RUN)).run("SELECT * FROM groups")
    old.write_bytes(b"damaged")
    with pytest.raises(LakeError, match=r"groups of the lake .* can't be read"):
        LakeSnapshot(locate(str(path)), FIRST_RUN).group_ids("groups")


@pytest.mark.parametrize("step", [VACUUM, FORGET])
def test_a_reader_whose_files_maintenance_deletes(step: str, tmp_path: Path) -> None:
    """An erasure deletes them at once: the reader must not take the lake for damaged."""
    path = tmp_path / "lake"
    write_lake(path, {"groups": [{"group_id": "before"}]})
    (old,) = (path / "groups").glob("*.parquet")
    reader, engine = (LakeSnapshot(locate(str(path))) for _ in range(2))
    later = FIRST_RUN + timedelta(days=1)
    rows = {"groups": [{"group_id": "after"}]}
    write_run(path, rows, finished_at=later, mode="overwrite", run={"durations_ms": {step: 1}})
    old.unlink()
    for read in (
        lambda: reader.rows("groups"),
        lambda: DuckDBEngine(engine).run("SELECT * FROM groups"),
    ):
        with pytest.raises(LakeError, match="has deleted old versions of the tables") as refused:
            read()
        assert "start the command again" in str(refused.value.hint)


def test_a_missing_file_that_maintenance_has_not_deleted(tmp_path: Path) -> None:
    write_lake(tmp_path / "lake", {"groups": [{"group_id": "before"}]})
    (file,) = (tmp_path / "lake" / "groups").glob("*.parquet")
    file.unlink()
    with pytest.raises(LakeError, match=r"groups of the lake .* can't be read"):
        LakeSnapshot(locate(str(tmp_path / "lake"))).group_ids("groups")
    for runs in (tmp_path / "lake" / "runs").glob("*.parquet"):
        runs.unlink()
    with pytest.raises(LakeError, match=r"runs of the lake .* can't be read"):
        LakeSnapshot(locate(str(tmp_path / "lake")))
