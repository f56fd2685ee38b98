"""Rows in memory, and a tenant with rows of every kind."""

from __future__ import annotations

import pytest

from antiphon_core.clock import ManualClock
from antiphon_store.service import StoreService
from tests.support.memory_maintenance import MaintainedMemory
from tests.support.stored_tenant import StoredTenant


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def empty(clock: ManualClock) -> MaintainedMemory:
    rows = MaintainedMemory(clock)
    await rows.open()
    return rows


@pytest.fixture
async def rows(clock: ManualClock) -> MaintainedMemory:
    rows = MaintainedMemory(clock)
    await rows.open()
    return rows


@pytest.fixture
async def stored(rows: MaintainedMemory) -> StoredTenant:
    stored = StoredTenant("acme")
    await stored.fill(StoreService(rows))
    return stored
