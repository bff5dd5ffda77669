"""Measures the page of a report in a real headless Chromium.

    python -m benchmarks.report_page REPORT.json

REPORT.json is what `kip848 report` writes beside its page. The page is rendered and opened several
times, each in a new context of the browser. The first view is measured from the request of the
file to the frame after the view is complete; a later view, from the change of the address."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from playwright.sync_api import Browser, sync_playwright
from rich.console import Console
from rich.table import Table

from kip848_spark.report.page import render

ROUNDS = 5
VIEWS = ("rebalances", "readiness", "hygiene", "findings", "groups")
_FRAME = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
_GO = f"""async view => {{
    location.hash = '#/' + view;
    do {{ await ({_FRAME})() }} while (document.documentElement.dataset.shown !== location.hash);
}}"""


def main(path: Path) -> None:
    """Renders the report at ``path``, measures its page and prints the medians in seconds."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        sys.exit("This machine has no Chromium.")
    report = json.loads(path.read_text(encoding="utf-8"))
    begin = time.perf_counter()
    text = render(report)
    rendered = time.perf_counter() - begin
    with tempfile.TemporaryDirectory(prefix="kip848-bench-") as folder:
        page = Path(folder) / "report.html"
        page.write_text(text, encoding="utf-8")
        with sync_playwright() as playwright:
            chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
            rounds = [measure(chromium, page) for _ in range(ROUNDS)]
            chromium.close()
        size = page.stat().st_size
    table = Table(title=f"{path.name}: a page of {size / 1e6:.1f} MB, rendered in {rendered:.2f} s")
    table.add_column("view")
    table.add_column("seconds (median)", justify="right")
    table.add_column("lowest", justify="right")
    table.add_column("highest", justify="right")
    for view in rounds[0]:
        seconds = [one[view] for one in rounds]
        table.add_row(
            view, *(f"{one:.2f}" for one in (median(seconds), min(seconds), max(seconds)))
        )
    Console(width=90).print(table)


def measure(browser: Browser, page: Path) -> dict[str, float]:
    """Seconds until each view is drawn, by name."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    opened = context.new_page()
    begin = time.perf_counter()
    opened.goto(page.as_uri())
    opened.wait_for_selector("html[data-ready]", state="attached")
    opened.evaluate(_FRAME)
    seconds = {"first view": time.perf_counter() - begin}
    for view in VIEWS:
        begin = time.perf_counter()
        opened.evaluate(_GO, view)
        seconds[view] = time.perf_counter() - begin
    context.close()
    return seconds


if __name__ == "__main__":
    main(Path(sys.argv[1]))
