"""Where the cache folder is."""

from __future__ import annotations

import pwd
from pathlib import Path

import pytest

from kip848_spark.errors import EnvironmentFault
from kip848_spark.runtime.cache import cache_folder


def test_a_user_without_a_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As one of a container that only has a number."""

    def unknown(number: int) -> None:
        raise KeyError(number)

    for name in ("HOME", "XDG_CACHE_HOME", "KIP848_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    with pytest.raises(EnvironmentFault, match="no home folder") as raised:
        cache_folder()
    assert "KIP848_CACHE" in (raised.value.hint or "")
    monkeypatch.setenv("KIP848_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
