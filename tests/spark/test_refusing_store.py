"""A store that refuses what the driver asks about a lake's tables: each question ends in one
sentence. Needs no session."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from deltalake.exceptions import DeltaError

from kip848_spark.errors import LakeError
from kip848_spark.lake import delta_rs
from kip848_spark.lake.location import Location
from kip848_spark.spark.storage.upkeep import Rewrite
from kip848_spark.spark.storage.worker_written import WorkerWrittenTables

EXPIRED = "s3a://lakes/night: The provided token has expired. (Status Code: 400; ExpiredToken)"


def tables_of(folder: Path) -> WorkerWrittenTables:
    return WorkerWrittenTables(Mock(), Location.local("s3a://lakes/night", folder))


@pytest.mark.parametrize(
    "ask",
    [
        WorkerWrittenTables.create,
        WorkerWrittenTables.upgrade,
        WorkerWrittenTables.versions,
        WorkerWrittenTables.correct_statistics,
        lambda tables: tables.restore({"runs": 1}),
        lambda tables: tables.vacuum("runs", 24, []),
    ],
)
def test_credentials_that_have_expired(
    tmp_path: Path, ask: Callable[[WorkerWrittenTables], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: str = "") -> Sequence[str]:
        raise OSError(EXPIRED)

    monkeypatch.setattr(delta_rs, "vacuum", lambda *_: 0)
    tables = tables_of(tmp_path)
    monkeypatch.setattr(tables.files, "names", refuse)
    with pytest.raises(LakeError, match="the credentials of the object store have expired"):
        ask(tables)


@pytest.mark.parametrize(
    ("operation", "ask"),
    [
        ("statistics_corrections", lambda tables: tables._statistics_corrections("runs")),
        ("file_paths", lambda tables: tables.rewrite("runs", Rewrite(lambda rows: rows))),
    ],
)
def test_credentials_that_expire_for_delta_rs(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    operation: str,
    ask: Callable[[WorkerWrittenTables], Any],
) -> None:
    def refuse(*_: object) -> None:
        raise DeltaError(EXPIRED)

    monkeypatch.setattr(delta_rs, operation, refuse)
    with pytest.raises(LakeError, match="the credentials of the object store have expired"):
        ask(tables_of(tmp_path))
