"""Writes docs/licenses.md: what is shipped, downloaded or installed, and its licences.

    python -m tests.licenses           from conf/jars.licenses and the installed packages
    python -m tests.licenses --jars    reads the licences of the jars from their poms first

Nothing is written by hand: the vendored files are those of ``vendor.toml``, the jars those of
``conf/jars.lock`` with the licences in their poms, the packages those that the installed
distribution requires, with the licences in their metadata.
"""

from __future__ import annotations

import re
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, distribution, requires
from pathlib import Path
from xml.etree import ElementTree

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from kip848_spark.runtime import jars

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "licenses.md"
LICENCES = ROOT / "conf" / "jars.licenses"
VENDOR = ROOT / "kip848_spark" / "report" / "assets" / "vendor.toml"
LOCK = ROOT / "conf" / "jars.lock"

DOWNLOADED = ("spark", "s3", "broker-4.3.1")
"""Sections of the lock file with jars that a user downloads, the last one for `demo`. Only tests
download the others."""
EXTRA = "openlineage"
"""The extra of this package that is not for its development."""
HEAD = """# Licences

`python -m tests.licenses` writes this page; don't edit it. A test compares it with the lock files.
This program is licensed under Apache-2.0.

`cyclonedx-py` of the package `cyclonedx-bom` writes an SBOM of what is installed (`make sbom`). On
2026-11-24 it had 134 components. `pip-audit` looks for known vulnerabilities. `--strict` makes it
fail if it can't check a package: without this option it says "No known vulnerabilities found" even
if the database knows none of the packages. That was so on 2026-11-24, so it has checked nothing
yet:

<!-- not run: it downloads these tools; tests/test_licenses.py -->
```sh
uv tool run --from cyclonedx-bom cyclonedx-py environment .venv/bin/python -o sbom.json
uv tool run pip-audit --strict -r requirements.lock --disable-pip --require-hashes
```
"""


def sections() -> dict[str, list[str]]:
    """The names of the jars in each section of the lock file."""
    found: dict[str, list[str]] = {}
    for line in LOCK.read_text().splitlines():
        if line.startswith("["):
            current = found.setdefault(line.strip("[]"), [])
        elif line.strip() and not line.startswith("#"):
            current.append(line.split()[1])
    return {name: some for name, some in found.items() if name.startswith(DOWNLOADED)}


def read_licences() -> dict[str, str]:
    """The licence of each jar in `LICENCES`."""
    lines = LICENCES.read_text().splitlines()
    return dict(line.split("  ", 1) for line in lines if line and not line.startswith("#"))


def fetch_licences() -> dict[str, str]:
    """The licences in the poms of all jars in the lock file, from the Maven repository."""
    found: dict[str, str] = {}
    for name in sections():
        kind, _, version = name.partition("-")
        release = version if kind == "spark" and version else jars.SPARK_RELEASES[-1]
        jar_set = jars._JarSet(name, jars._ivy_of(release), kind, version or None)
        with tempfile.TemporaryDirectory() as folder:
            aside = Path(folder)
            (aside / "ivy.xml").write_bytes(jar_set.ivy_file)
            jars._fetch(aside, jar_set, print)
            for file in (aside / "ivy").rglob("ivy-*.xml"):
                root = ElementTree.parse(file).getroot()
                info = root.find("info")
                assert info is not None
                names = [one.get("name", "") for one in info.findall("license")]
                jar = f"{info.get('module')}-{info.get('revision')}.jar"
                found[jar] = ", ".join(filter(None, names)) or "not stated"
    return {jar: found.get(jar, "not stated") for some in sections().values() for jar in some}


def required(name: str = "kip848-spark", extra: str = "") -> Iterator[Distribution]:
    """The installed packages that this one requires, also indirectly, with those of one ``extra``
    of this one."""
    seen, waiting = {canonicalize_name(name)}, [(name, extra)]
    while waiting:
        package, wanted = waiting.pop()
        for text in requires(package) or ():
            requirement = Requirement(text)
            found = canonicalize_name(requirement.name)
            applies = requirement.marker is None or requirement.marker.evaluate({"extra": wanted})
            if applies and found not in seen:
                seen.add(found)
                waiting.append((found, ""))
                yield distribution(found)


def licence_of(package: Distribution) -> str:
    """The licence that the metadata of a package names."""
    metadata = package.metadata
    if expression := metadata.get("License-Expression"):
        return expression
    classifiers = metadata.get_all("Classifier") or []
    named = [c.rsplit(" :: ", 1)[1] for c in classifiers if c.startswith("License :: OSI")]
    first = (metadata.get("License") or "").strip().splitlines()[:1]
    return ", ".join(named) or (first[0] if first else "not stated")


def page() -> str:
    """The text of `PAGE`."""
    lines = [HEAD, "## In the package", ""]
    lines += ["| library | version | licence | files |", "|---|---|---|---|"]
    for one in tomllib.loads(VENDOR.read_text())["package"]:
        files = ", ".join(f"`{file['name']}`" for file in one["file"])
        lines.append(f"| {one['name']} | {one['version']} | {one['licence']} | {files} |")
    licences = read_licences()
    lines += ["", "## Downloaded when first needed", ""]
    lines += ["Checksums are in `conf/jars.lock`. The licences are those in the poms.", ""]
    for name, names in sections().items():
        lines += [f"### `{name}`", "", "| jar | licence |", "|---|---|"]
        lines += [f"| {jar} | {licences[jar]} |" for jar in names]
        lines.append("")
    always = {one.name: one for one in required()}
    lines += ["## Required Python packages", "", *_table(always.values())]
    added = [one for one in required(extra=EXTRA) if one.name not in always]
    lines += ["", f"## Python packages of the extra `{EXTRA}`", "", *_table(added)]
    return "\n".join(lines) + "\n"


def _table(packages: Iterable[Distribution]) -> Iterator[str]:
    yield "| package | version | licence |"
    yield "|---|---|---|"
    for package in sorted(packages, key=lambda one: canonicalize_name(one.name)):
        licence = re.sub(r"\s+", " ", licence_of(package)).replace("|", "/")
        yield f"| {canonicalize_name(package.name)} | {package.version} | {licence} |"


def main() -> None:
    if "--jars" in sys.argv:
        head = (
            "# The licences of the jars in jars.lock, by their poms: `python -m tests.licenses`\n"
        )
        rows = sorted(fetch_licences().items())
        LICENCES.write_text(head + "".join(f"{jar}  {licence}\n" for jar, licence in rows))
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
