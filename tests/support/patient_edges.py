"""Edges with all the time that they may need, for tests in which no time limit is under test.

In life a store that shows no sign of life for a second is gone. On a busy machine it may only be waiting for the
processor, or the test may.
"""

from __future__ import annotations

import pytest

from antiphon_edge.quotas import counting
from antiphon_edge.routes import responses
from antiphon_edge.turns import store_retry

LONG_S = 30.0


def make_edges_patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """For the edges of this process. Tests of one of these limits set it themselves."""
    monkeypatch.setattr(counting, "STORE_TIMEOUT_S", LONG_S)
    monkeypatch.setattr(store_retry, "SLOW_S", LONG_S)
    monkeypatch.setattr(responses, "ANSWER_S", LONG_S)
