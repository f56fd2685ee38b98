"""Rows in memory, and a tenant that has something of every kind."""

from __future__ import annotations

import pytest

from antiphon_core.clock import ManualClock
from antiphon_store.backends.memory_rows import MemoryRows
from antiphon_store.engine.facade import RowEngine
from tests.support.stored_tenant import StoredTenant


@pytest.fixture
async def empty(clock: ManualClock) -> MemoryRows:
    rows = MemoryRows(clock)
    await rows.open()
    return rows


@pytest.fixture
async def rows(clock: ManualClock) -> MemoryRows:
    rows = MemoryRows(clock)
    await rows.open()
    return rows


@pytest.fixture
async def stored(rows: MemoryRows) -> StoredTenant:
    stored = StoredTenant("acme")
    await stored.fill(RowEngine(rows))
    return stored
