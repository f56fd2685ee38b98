"""An engine over rows that are watched."""

from __future__ import annotations

import pytest

from antiphon_core.clock import ManualClock
from antiphon_store.engine.store_engine import StoreEngine
from tests.support.rows import SpiedRows


@pytest.fixture
async def rows(clock: ManualClock) -> SpiedRows:
    rows = SpiedRows(clock)
    await rows.open()
    return rows


@pytest.fixture
def engine(rows: SpiedRows) -> StoreEngine:
    return StoreEngine(rows)
