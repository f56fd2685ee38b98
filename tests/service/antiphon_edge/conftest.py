from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from antiphon_edge.http import http_server
from tests.support.edge import RunningEdge, running_edge
from tests.support.patient_edges import make_edges_patient


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives edges long time limits for busy machines. Tests of one of these limits set it themselves."""
    monkeypatch.setattr(http_server, "LINGER_S", 30.0)
    make_edges_patient(monkeypatch)


@pytest.fixture
async def edge() -> AsyncIterator[RunningEdge]:
    async with running_edge() as running:
        yield running
