from __future__ import annotations

from pathlib import Path

import pytest

from antiphon import folders


def test_folders_follow_the_xdg_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "/x/data")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x/cache")
    assert folders.default_data_folder() == Path("/x/data/antiphon")
    assert folders.cache_folder() == Path("/x/cache/antiphon")
    monkeypatch.delenv("XDG_DATA_HOME")
    assert folders.default_data_folder() == Path.home() / ".local/share/antiphon"
