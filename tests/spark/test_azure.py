"""A lake on Azure's store, as Azurite emulates it: equal to one on a local disk, read without a
JVM, written by one run at a time."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from tests.captures import COMMITTED
from tests.conftest import DATA
from tests.spark.azure import AZURITE, HOSTS, KEY, KEY_OF, AzureStore, azure_store
from tests.spark.lakes import TABLES_OF_RECORDS, rows_of_files
from tests.spark.stores import check_folder, ended, kip848

SOURCE = f"parquet:{DATA / 'kafka-4.3.1' / COMMITTED}"

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def azure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AzureStore]:
    """A store with a container; each test needs paths of its own."""
    program = os.environ.get(AZURITE)
    if not program:
        pytest.skip(f"{AZURITE} does not name the program azurite-blob")
    folder = tmp_path_factory.mktemp("azure")
    with azure_store(program, folder) as store, patch.dict(os.environ, store.environment):
        yield store


@pytest.fixture
def config(azure: AzureStore, tmp_path: Path) -> tuple[str, str]:
    """The option that names a settings file, which refers to `AZURE_KEY`."""
    file = tmp_path / "kip848.toml"
    file.write_text(azure.file("${AZURE_KEY}"))
    return "--config", str(file)


def test_a_lake_on_azure(azure: AzureStore, config: tuple[str, str], tmp_path: Path) -> None:
    lake, local = azure.path("lake"), str(tmp_path / "lake")
    done = kip848("run", "--source", SOURCE, "--lake", lake, "--json", *config, AZURE_KEY=KEY)
    assert json.loads(done)["changed"]
    kip848("run", "--source", SOURCE, "--lake", local)
    again = kip848("run", "--source", SOURCE, "--lake", lake, "--json", *config, AZURE_KEY=KEY)
    assert not json.loads(again)["changed"]

    options = azure.storage_options | {"azure_storage_account_key": KEY}
    for table in TABLES_OF_RECORDS:
        assert rows_of_files(f"{lake}/{table}", options) == rows_of_files(f"{local}/{table}"), table
    no_java = {"JAVA_HOME": str(tmp_path / "no-java"), "PATH": "/nowhere", "AZURE_KEY": KEY}
    group = json.loads(kip848("rebalances", "--lake", local, "--json"))[0]["group_id"]
    for words in (
        ("groups", "--all", "--json"),
        ("rebalances", "--json"),
        ("history", group, "--json"),
        ("sql", "SELECT kind, count(*) AS n FROM records GROUP BY kind ORDER BY kind", "--json"),
    ):
        on_azure = kip848(*words, "--lake", lake, *config, **no_java)
        assert on_azure == kip848(*words, "--lake", local, **no_java), words
        assert len(on_azure) > 2, words
    page = tmp_path / "report.html"
    kip848("report", "--lake", lake, "--out", str(page), *config, **no_java)
    assert page.stat().st_size > 100_000


def test_of_many_that_create_a_file_one_does(azure: AzureStore) -> None:
    keys = {f"{KEY_OF}{host}": KEY for host in HOSTS}
    settings = {f"spark.hadoop.{name}": value for name, value in (azure.hadoop | keys).items()}
    check_folder(azure.path("folder"), *(f"{n}={v}" for n, v in (settings | azure.spark).items()))


@pytest.mark.parametrize("verb", [("ingest", "--source", SOURCE), ("groups",)])
def test_a_wrong_key(azure: AzureStore, config: tuple[str, str], verb: tuple[str, ...]) -> None:
    wrong = f"{KEY[:-8]}AAAAAAA="
    done = ended(*verb, "--lake", azure.path("wrong"), *config, AZURE_KEY=wrong)
    assert done.returncode == 3, done.stderr
    assert "does not know the credentials" in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert wrong not in done.stderr
