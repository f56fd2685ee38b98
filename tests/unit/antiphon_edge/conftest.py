from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from antiphon_edge.door import counting, http_server
from antiphon_edge.routes import responses
from antiphon_edge.turns import store_patience
from tests.support.edge import RunningEdge, running_edge


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an edge waits for comes, on a busy machine after a while. Tests of one of these limits set it themselves."""
    monkeypatch.setattr(http_server, "LINGER_S", 30.0)
    monkeypatch.setattr(counting, "PATIENCE_S", 30.0)
    monkeypatch.setattr(store_patience, "SLOW_S", 30.0)
    monkeypatch.setattr(responses, "ANSWER_S", 30.0)


@pytest.fixture
async def edge() -> AsyncIterator[RunningEdge]:
    async with running_edge() as running:
        yield running
