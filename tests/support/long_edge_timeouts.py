"""Long timeouts of edges, for tests of other features: on a busy machine a store may be late without being down."""

from __future__ import annotations

import pytest

from antiphon_edge import store_calls
from antiphon_edge.quotas import counting
from antiphon_edge.routes import responses

LONG_S = 30.0


def set_long_edge_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets the timeouts of the edges in this process. A test of a timeout sets that timeout itself."""
    monkeypatch.setattr(counting, "STORE_TIMEOUT_S", LONG_S)
    monkeypatch.setattr(store_calls, "SLOW_S", LONG_S)
    monkeypatch.setattr(responses, "ANSWER_S", LONG_S)
