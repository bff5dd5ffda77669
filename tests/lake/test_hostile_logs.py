"""Lakes whose Delta log somebody has forged: one sentence, and no file outside of the lake is
read."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from kip848_spark.errors import Kip848Error, LakeError
from kip848_spark.lake import delta_rs
from kip848_spark.lake.arrow_files import WriteTarget
from kip848_spark.lake.lake import Lake
from kip848_spark.lake.location import locate
from kip848_spark.lake.snapshot import LakeSnapshot
from kip848_spark.lake.tables import TABLES
from tests.lake.written_lake import write_lake

Actions = list[dict[str, Any]]
Forge = Callable[[Actions, Path], Actions | None]
SECRET = "a group of another lake"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a lake and, beside it, the folder of a file that no reader may see."""
    folder = tmp_path_factory.mktemp("lakes")
    write_lake(folder / "lake", {"groups": [{"group_id": "a"}], "gaps": [{"partition": 1}]})
    write_lake(folder / "outside", {"groups": [{"group_id": SECRET}]})
    (file,) = (folder / "outside" / "groups").glob("*.parquet")
    file.rename(folder / "outside" / "secret.parquet")
    return folder


def forge(written: Path, to: Path, change: Forge, table: str = "groups") -> LakeSnapshot:
    """A copy of the lake in which the last commit of ``table`` was changed."""
    shutil.copytree(written, to, dirs_exist_ok=True)
    log = to / "lake" / table / "_delta_log" / f"{1:020}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    changed = change(actions, log)
    if changed is not None:
        log.write_text("".join(json.dumps(action) + "\n" for action in changed))
    return LakeSnapshot(locate(str(to / "lake")))


def refusal(act: Callable[[], object]) -> str:
    """The sentence with which something is refused."""
    with pytest.raises(Kip848Error) as refused:
        act()
    assert "\n" not in refused.value.message
    assert SECRET not in refused.value.message
    assert len(refused.value.message) < 1_000
    return refused.value.message


def added(**fields: Any) -> Forge:
    """Changes the fields of the added file."""

    def change(actions: Actions, _: Path) -> Actions:
        for action in actions:
            if "add" in action:
                action["add"] |= fields
        return actions

    return change


def with_metadata(**fields: Any) -> Forge:
    """Adds metadata, as the table's own but for ``fields``."""

    def change(actions: Actions, log: Path) -> Actions:
        first = log.with_name(f"{0:020}.json").read_text().splitlines()
        own = next(action for action in map(json.loads, first) if "metaData" in action)
        return [*actions, {"metaData": own["metaData"] | fields}]

    return change


@pytest.mark.parametrize(
    "path",
    [
        "../../outside/secret.parquet",
        "%2e%2e/%2E%2E/outside/secret.parquet",
        "..%2F..%2Foutside%2Fsecret.parquet",
        "a/../../../outside/secret.parquet",
        "{outside}/secret.parquet",
        "file://{outside}/secret.parquet",
        "file:{outside}/secret.parquet",
        "s3://bucket/secret.parquet",
    ],
)
def test_a_log_that_names_a_file_elsewhere(written: Path, tmp_path: Path, path: str) -> None:
    """What the driver hands to Spark comes from the same table as what is read here."""
    name = path.format(outside=tmp_path / "outside")
    size = (written / "outside" / "secret.parquet").stat().st_size
    snapshot = forge(written, tmp_path, added(path=name, size=size))
    assert "names a file outside of that folder" in refusal(lambda: snapshot.rows("groups"))
    folder = str(tmp_path / "lake" / "groups")
    assert "names a file outside" in refusal(lambda: delta_rs.file_paths(folder))
    assert "names a file outside" in refusal(lambda: delta_rs.commit_actions(folder, 1, []))
    assert snapshot.table("gaps").num_rows == 1


def test_names_that_only_look_so(written: Path, tmp_path: Path) -> None:
    """Dots and escapes in a name are no step up."""
    snapshot = forge(written, tmp_path, added(path="..a..%25b%20c.parquet"))
    (file,) = (tmp_path / "lake" / "groups").glob("*.parquet")
    file.rename(file.with_name("..a..%b c.parquet"))
    assert snapshot.table("groups").num_rows == 1


def _text(content: str | bytes) -> Forge:
    def change(_: Actions, log: Path) -> None:
        log.write_bytes(content if isinstance(content, bytes) else content.encode())

    return change


LONG = {"name": "group_id", "type": "long", "nullable": True, "metadata": {}}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(_text("{not json"), id="invalid"),
        pytest.param(_text(b"\x00\xff" * 1000), id="bytes"),
        pytest.param(_text("[" * 100_000), id="deep"),
        pytest.param(_text('{"add":' * 20_000), id="deep objects"),
        pytest.param(_text("x" * 20_000_000), id="huge"),
        pytest.param(added(size=-1), id="negative size"),
        pytest.param(added(size=2**63 - 1), id="size"),
        pytest.param(added(path="not-there.parquet"), id="missing file"),
        pytest.param(with_metadata(schemaString="{no"), id="schema"),
        pytest.param(
            with_metadata(schemaString=json.dumps({"type": "struct", "fields": [LONG]})),
            id="types",
        ),
        pytest.param(with_metadata(partitionColumns=["none"]), id="partitions"),
        pytest.param(
            lambda actions, _: [
                *actions,
                {"protocol": {"minReaderVersion": 99, "minWriterVersion": 99}},
            ],
            id="protocol",
        ),
        pytest.param(
            lambda actions, _: [
                *actions,
                {
                    "protocol": {
                        "minReaderVersion": 3,
                        "minWriterVersion": 7,
                        "readerFeatures": ["unheard"],
                        "writerFeatures": ["unheard"],
                    }
                },
            ],
            id="feature",
        ),
    ],
)
def test_a_log_that_is_no_log(written: Path, tmp_path: Path, change: Forge) -> None:
    snapshot = forge(written, tmp_path, change)
    assert "can't be read" in refusal(lambda: snapshot.rows("groups"))


@pytest.mark.parametrize(
    "columns",
    [
        {"finished_at": None},
        {"run_id": None},
        {"to_offsets": None},
        {"from_offsets": [(0, 0)]},
        {"table_versions": None},
        {"topic": None},
    ],
    ids=lambda columns: next(iter(columns)),
)
def test_a_ledger_that_lacks_what_every_run_has(
    written: Path, tmp_path: Path, columns: dict[str, Any]
) -> None:
    shutil.copytree(written / "lake", tmp_path / "lake")
    runs = DeltaTable(tmp_path / "lake" / "runs")
    runs.delete()
    (row,) = DeltaTable(written / "lake" / "runs").to_pyarrow_table().to_pylist()
    place = str(tmp_path / "lake" / "runs")
    target = WriteTarget("runs", place, TABLES["runs"].fields, {}, ())
    delta_rs.commit(place, 2, delta_rs.write_rows(target, [row | columns]))
    assert "damaged" in refusal(lambda: LakeSnapshot(locate(str(tmp_path / "lake"))))


@pytest.mark.parametrize("table", ["runs", "groups"])
def test_an_empty_commit(written: Path, tmp_path: Path, table: str) -> None:
    """Delta's readers take it for a commit that changed nothing: the table would be empty."""
    shutil.copytree(written / "lake", tmp_path / "lake")
    commits = sorted((tmp_path / "lake" / table / "_delta_log").glob("*.json"))
    commits[-1].write_bytes(b"")
    words = f"The table {table} of the lake {tmp_path / 'lake'} is damaged: the commit _delta_log/"
    assert f"{words}{commits[-1].name} is empty." == refusal(
        lambda: LakeSnapshot(locate(str(tmp_path / "lake"))).rows("groups")
    )


@pytest.mark.parametrize(
    ("place", "hint"),
    [
        ("lake/groups", "pass the folder above it"),
        ("", "Pass the folder to which `kip848 run` has written"),
        ("lake/none", "Check the path, or create a lake"),
    ],
)
def test_a_folder_that_is_no_lake(written: Path, place: str, hint: str) -> None:
    with pytest.raises(Kip848Error) as refused:
        LakeSnapshot(locate(str(written / place)))
    assert hint in (refused.value.hint or "")


@pytest.mark.parametrize("table", ["../outside", "groups/../../outside", "/etc", "runs/_delta_log"])
def test_a_table_is_no_path(written: Path, table: str) -> None:
    snapshot = LakeSnapshot(locate(str(written / "lake")))
    assert "has no table" in refusal(lambda: snapshot.rows(table))


@pytest.mark.parametrize("group", ["../../outside", "/etc/passwd", "a'; DROP", "*", "[a]"])
def test_a_group_is_no_path(written: Path, group: str) -> None:
    assert "no group" in refusal(lambda: Lake(str(written / "lake")).explain(group))


@pytest.mark.parametrize("name", ["a[1]", "a*", "{a,b}", "a?b"])
def test_a_path_is_no_pattern(written: Path, tmp_path: Path, name: str) -> None:
    shutil.copytree(written / "lake", tmp_path / name)
    assert LakeSnapshot(locate(str(tmp_path / name))).table("groups").num_rows == 1
    with pytest.raises(LakeError, match="no lake"):
        LakeSnapshot(locate(str(tmp_path / "b[1]")))
