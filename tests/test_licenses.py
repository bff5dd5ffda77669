"""The page of licences is complete: it has every vendored file, every jar and every package."""

from __future__ import annotations

import re
import tomllib

from tests.licenses import (
    DOWNLOADED,
    EXTRA,
    LICENCES,
    PAGE,
    ROOT,
    VENDOR,
    page,
    read_licences,
    required,
    sections,
)


def test_the_page_is_up_to_date() -> None:
    """After a change of a dependency: `python -m tests.licenses` (`--jars` for other jars)."""
    assert page() == PAGE.read_text()


def test_every_part_is_on_the_page() -> None:
    text = PAGE.read_text()
    lock = (ROOT / "conf" / "jars.lock").read_text()
    parts = [part for part in lock.split("\n[") if part.startswith(DOWNLOADED)]
    locked = re.findall(r"^[0-9a-f]{64} +(\S+)$", "\n".join(parts), re.M)
    assert len(locked) > 60
    assert set(locked) == set(read_licences())
    for jar in locked:
        assert f"| {jar} | " in text
    assets = {path.name for path in VENDOR.parent.glob("*.min.*")}
    named = {f["name"] for p in tomllib.loads(VENDOR.read_text())["package"] for f in p["file"]}
    assert assets <= named
    assert all(f"`{name}`" in text for name in named)


def test_packages_are_those_of_the_lock_file() -> None:
    pinned = dict(
        re.findall(r"^([a-z0-9.-]+)==([^\s;]+)", (ROOT / "requirements.lock").read_text(), re.M)
    )
    packages = [*required(), *required(extra=EXTRA)]
    found = {re.sub(r"[-_.]+", "-", one.name).lower(): one.version for one in packages}
    assert {"pyspark", "py4j", "pyarrow", "jinja2", "markupsafe"} <= found.keys()
    assert {"openlineage-python", "attrs", "requests"} <= found.keys()
    assert {name: pinned.get(name) for name in found} == found


def test_what_states_no_licence() -> None:
    """So that a new dependency without one is noticed."""
    unclear = [line for line in LICENCES.read_text().splitlines() if line.endswith("not stated")]
    assert not unclear
    assert sections().keys() >= {"spark", "spark-4.0", "spark-4.1", "s3"}
    assert "not stated" not in PAGE.read_text()
