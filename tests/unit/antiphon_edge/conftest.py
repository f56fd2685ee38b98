from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.edge import RunningEdge, running_edge


@pytest.fixture
async def edge() -> AsyncIterator[RunningEdge]:
    async with running_edge() as running:
        yield running
