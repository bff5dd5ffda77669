"""What a path means: the same for lakes, captures, Spark and the readers without a JVM."""

from __future__ import annotations

from pathlib import Path

import pytest

from kip848_spark.errors import UsageError
from kip848_spark.lake.location import locate
from kip848_spark.lake.snapshot import LakeSnapshot, OnlySparkReads

HDFS = "hdfs://name:8020/"


@pytest.mark.parametrize(
    ("text", "folder"),
    [
        ("/data/lake", "/data/lake"),
        ("/data/lake/", "/data/lake"),
        ("/", "/"),
        ("file:/data/lake", "/data/lake"),
        ("file:///data/lake", "/data/lake"),
        ("file://localhost/data/lake", "/data/lake"),
        ("FILE:/data/lake", "/data/lake"),
        ("/a b/100%25/ü", "/a b/100%25/ü"),
        ("file:/a b/100%25", "/a b/100%25"),
        ("./a:b", "a:b"),
    ],
)
def test_a_folder_of_this_machine(text: str, folder: str) -> None:
    place = locate(text)
    assert place.folder == Path(folder).absolute()
    assert place.uri == f"file:{Path(folder).absolute()}"


@pytest.mark.parametrize(
    "text", ["s3a://bucket/lake", "hdfs://name/lake", "dbfs:/lake", "abfss://c@a.dfs/lake"]
)
def test_a_uri_is_not_a_folder_of_this_machine(text: str) -> None:
    place = locate(f"{text}/")
    assert place.folder is None
    assert place.uri == text
    assert place.child("records") == f"{text}/records"


def test_a_path_without_a_scheme_belongs_to_the_default_file_system() -> None:
    assert locate("/data/lake", HDFS).uri == "hdfs://name:8020/data/lake"
    assert locate("/data/lake", HDFS).folder is None
    assert locate("file:/data/lake", HDFS).folder == Path("/data/lake")
    with pytest.raises(UsageError, match="relative path"):
        locate("lake", HDFS)


@pytest.mark.parametrize("text", ["", "file:lake", "file://elsewhere/lake", "file:"])
def test_what_names_no_place_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        locate(text)


@pytest.mark.parametrize(
    ("name", "escape"), [("a%20b", "%20"), ("100%25", "%25"), ("100%", None), ("%zz", None)]
)
def test_a_percent_sign_that_delta_rs_reads(tmp_path: Path, name: str, escape: str | None) -> None:
    """Only one before two hexadecimal digits. The error names it."""
    (tmp_path / name / "runs" / "_delta_log").mkdir(parents=True)
    place = locate(str(tmp_path / name))
    assert place.escape == escape
    assert place.suits_delta_rs == (escape is None)
    if escape is not None:
        with pytest.raises(OnlySparkReads, match=rf"has a percent sign \({escape}\)"):
            LakeSnapshot(place)
