"""A real Chromium and a page in it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from kip848_spark.report.page import render

GO = """async view => {
    location.hash = '#/' + view;
    const root = document.documentElement;
    for (let frames = 0; root.dataset.shown !== location.hash && frames < 600; frames += 1) {
        await new Promise(requestAnimationFrame);
    }
}"""
NAMES = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The Chromium of this machine."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip(f"This machine has no browser ({', '.join(NAMES)}).")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@dataclass
class Opened:
    """A page of a report in the browser, and what the browser said about it."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    """Messages of the console and errors of scripts."""
    requests: list[str] = field(default_factory=list)
    """Addresses that were asked for, without the page itself."""

    def go(self, view: str) -> None:
        """Shows a view, such as ``rebalances`` or ``group/ID``, and waits until it is drawn."""
        self.page.evaluate(GO, view)
        self.settle()

    def settle(self) -> None:
        """Waits until searches and charts are done."""
        self.page.evaluate(
            "() => new Promise(done => setTimeout(() => requestAnimationFrame(done), 150))"
        )

    def text(self) -> str:
        """What the view shows."""
        return self.page.locator("main").inner_text()


@pytest.fixture
def show(browser: Browser, tmp_path: Path) -> Iterator[Callable[..., Opened]]:
    """Opens the page of a report; the keywords are those of a browser context."""
    contexts = []

    def opened(report: dict[str, Any], **options: Any) -> Opened:
        path = tmp_path / f"report-{len(contexts)}.html"
        path.write_text(render(report), encoding="utf-8")
        settings = {"viewport": {"width": 1280, "height": 900}, **options}
        context = browser.new_context(**settings)
        contexts.append(context)
        found = Opened(context.new_page())
        found.page.on("console", lambda message: found.complaints.append(message.text))
        found.page.on("pageerror", lambda error: found.complaints.append(str(error)))
        found.page.on("request", lambda request: found.requests.append(request.url))
        found.page.goto(path.as_uri())
        found.page.wait_for_selector("html[data-ready]", state="attached")
        found.settle()
        found.requests.remove(path.as_uri())
        return found

    yield opened
    for context in contexts:
        context.close()
