from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from antiphon_edge.http import http_server
from tests.support.edge import RunningEdge, running_edge
from tests.support.long_edge_timeouts import set_long_edge_timeouts


@pytest.fixture(autouse=True)
def long_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives edges long time limits for busy machines. Tests of one of these limits set it themselves."""
    monkeypatch.setattr(http_server, "LINGER_S", 30.0)
    set_long_edge_timeouts(monkeypatch)


@pytest.fixture
async def edge() -> AsyncIterator[RunningEdge]:
    async with running_edge() as running:
        yield running
