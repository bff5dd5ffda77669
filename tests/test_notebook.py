"""The notebooks in examples/, run in a real kernel: each prints the output that it shows."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_gives_the_output_that_it_shows(path: Path) -> None:
    shown = nbformat.read(path, as_version=4)
    run = nbformat.read(path, as_version=4)
    client = NotebookClient(
        run, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(EXAMPLES)}}
    )
    client.execute()
    assert [printed(cell) for cell in run.cells] == [printed(cell) for cell in shown.cells]


def printed(cell: nbformat.NotebookNode) -> str:
    """The text of a cell's outputs; a progress bar's carriage returns do not count."""
    texts = (
        output.get("text") or output.get("data", {}).get("text/plain", "")
        for output in cell.get("outputs", [])
    )
    return re.sub(r"[^\n]*\r", "", "".join(texts))
