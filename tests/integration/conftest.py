"""What the tests of this folder share: time for the machine."""

from __future__ import annotations

import pytest

from antiphon_edge.door import counting
from antiphon_edge.routes import responses
from antiphon_edge.turns import store_patience


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a store that is slow is not gone."""
    monkeypatch.setattr(counting, "PATIENCE_S", 20.0)
    monkeypatch.setattr(store_patience, "SLOW_S", 20.0)
    monkeypatch.setattr(responses, "ANSWER_S", 20.0)
