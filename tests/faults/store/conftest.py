"""A store whose backend can be told to break, over each backend."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from antiphon_core.clock import ManualClock
from antiphon_store.backends.base import Backend, Durability
from antiphon_store.backends.memory import MemoryBackend
from antiphon_store.backends.sqlite.backend import SqliteBackend
from antiphon_store.wrappers.faulty import FaultyBackend


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["memory", "sqlite"])
async def faulty(request: pytest.FixtureRequest, clock: ManualClock, tmp_path: Path) -> AsyncIterator[FaultyBackend]:
    inner: Backend = MemoryBackend(clock)
    if request.param == "sqlite":
        inner = SqliteBackend(tmp_path / "store.db", durability=Durability.PROCESS, clock=clock)
    backend = FaultyBackend(inner)
    await backend.open()
    yield backend
    await backend.close()
