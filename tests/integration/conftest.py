"""Fixtures of this folder: long time limits for busy machines."""

from __future__ import annotations

import pytest

from tests.support.long_edge_timeouts import set_long_edge_timeouts


@pytest.fixture(autouse=True)
def long_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a store that is slow is not gone."""
    set_long_edge_timeouts(monkeypatch)
