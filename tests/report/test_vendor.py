"""Vendored files are what was published under their name and version."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tarfile
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import DATA

ROOT = DATA.parents[1]
FOLDERS = [ROOT / "kip848_spark/report/assets", ROOT / "tests/report/vendor"]
LISTED: list[tuple[Path, dict[str, Any]]] = [
    (folder, package)
    for folder in FOLDERS
    for package in tomllib.loads((folder / "vendor.toml").read_text())["package"]
]


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_every_vendored_file_is_listed_with_its_checksum(folder: Path) -> None:
    listed = {
        file["name"]: file["sha256"]
        for place, package in LISTED
        if place == folder
        for file in package["file"]
    }
    there = {path.name: digest(path.read_bytes()) for path in folder.iterdir()}
    there.pop("vendor.toml")
    assert there == listed


def test_every_package_has_its_licence() -> None:
    for _, package in LISTED:
        assert package["licence"]
        assert any("LICENSE" in file["name"] for file in package["file"])


@pytest.mark.parametrize(
    ("folder", "package"),
    LISTED,
    ids=lambda value: dict(value)["name"] if isinstance(value, dict) else "",
)
def test_files_are_those_of_the_published_package(
    folder: Path, package: dict[str, Any], tmp_path: Path
) -> None:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("This machine has no npm to fetch the published package with.")
    name = f"{package['name']}@{package['version']}"
    done = subprocess.run(
        [npm, "pack", "--silent", name],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"npm can't fetch {name}: {done.stderr.strip()[-200:]}")
    with tarfile.open(tmp_path / done.stdout.strip().splitlines()[-1]) as archive:
        for file in package["file"]:
            published = archive.extractfile(f"package/{file['path']}")
            assert published is not None
            assert digest(published.read()) == file["sha256"], file["name"]
