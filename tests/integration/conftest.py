"""Fixtures of this folder: long timeouts for busy machines."""

from __future__ import annotations

import pytest

from tests.support.long_edge_timeouts import set_long_edge_timeouts


@pytest.fixture(autouse=True)
def long_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets long timeouts of edges, because a store on a busy machine may be slow."""
    set_long_edge_timeouts(monkeypatch)
