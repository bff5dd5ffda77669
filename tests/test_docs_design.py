"""docs/design.md draws the packages: the drawing against the contracts of import-linter, the table
of imports against the modules, and the table of folders against the folders."""

from __future__ import annotations

import re
import tomllib
from itertools import pairwise

import grimp

from tests.documentation import ROOT, blocks

PACKAGE = "kip848_spark"


def section() -> str:
    """The section on packages, without what was before."""
    text = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    return text.split("\n## Packages\n", 1)[1].split("\n### Before\n", 1)[0]


def rows(header: str) -> list[list[str]]:
    """The cells of the table that begins with ``header``."""
    lines = section().split(header, 1)[1].split("\n\n", 1)[0].splitlines()[2:]
    return [[cell.strip() for cell in line[1:-1].split(" | ")] for line in lines]


def test_the_drawing_has_the_rows_of_the_contract() -> None:
    """A row is one name, or the subgraph of several; the arrows between them give the order."""
    drawing = next(b.text for b in blocks("docs/design.md") if b.text.strip() in section())
    members = {
        name: set(inside.split())
        for name, inside in re.findall(r"subgraph (\w+) .*\n([^>]*?)\n *end\n", drawing + "\n")
    }
    below: dict[str, str] = {}
    for line in drawing.splitlines():
        steps = line.strip().split(" --> ")
        below |= dict(pairwise(steps))
    (row,) = set(below) - set(below.values())
    drawn = [members.get(row, {row})]
    while row in below:
        row = below[row]
        drawn.append(members.get(row, {row}))

    linter = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (layers,) = (one["layers"] for one in linter["contracts"] if one["type"] == "layers")
    assert drawn == [set(layer.split(" | ")) for layer in layers]


def test_the_table_of_imports_is_what_the_modules_import() -> None:
    graph = grimp.build_graph(PACKAGE, exclude_type_checking_imports=True)
    names = sorted(module.rpartition(".")[2] for module in graph.find_children(PACKAGE))
    imports = {
        name: [
            other
            for other in names
            if other != name
            and graph.direct_import_exists(
                importer=f"{PACKAGE}.{name}", imported=f"{PACKAGE}.{other}", as_packages=True
            )
        ]
        for name in names
    }
    stated = {one.strip("`"): re.findall(r"`(\w+)`", some) for one, some in rows("| package | imp")}
    assert stated == {name: some for name, some in imports.items() if some}


def test_every_folder_is_in_the_table_of_folders() -> None:
    listed = {row[0].strip("`") for row in rows("| package | contents")}
    root = ROOT / PACKAGE
    folders = {f"{PACKAGE}/{path.parent.name}/" for path in root.glob("*/__init__.py")}
    assert folders <= listed
    assert all((ROOT / name).exists() for name in listed)
