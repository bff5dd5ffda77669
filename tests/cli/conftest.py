from __future__ import annotations

import pytest

from tests.cli.command import Command


@pytest.fixture
def kip848(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Command:
    """The command line: ``kip848("groups", "--lake", path)``."""
    monkeypatch.delenv("KIP848_CONFIG", raising=False)
    return Command(monkeypatch, capfd)
