"""Opening, closing, surviving: on every backend, and on the wrapper."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from antiphon_core.clock import ManualClock
from antiphon_store import testing
from antiphon_store.backends.base import Backend
from antiphon_store.backends.memory import MemoryBackend
from antiphon_store.backends.sqlite.backend import SqliteBackend
from antiphon_store.wrappers.faulty import FaultyBackend

BACKENDS: dict[str, Callable[[Path], Backend]] = {
    "memory": lambda _folder: MemoryBackend(ManualClock()),
    "sqlite": lambda folder: SqliteBackend(folder / "store.db", clock=ManualClock()),
    "faulty": lambda _folder: FaultyBackend(MemoryBackend(ManualClock())),
}


class TestLifecycle(testing.LifecycleSuite):
    @pytest.fixture(params=BACKENDS)
    def backend(self, request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
        return BACKENDS[request.param](tmp_path)


class TestPersistenceOfSqlite(testing.PersistenceSuite):
    @pytest.fixture
    def reopen(self, tmp_path: Path) -> Callable[[], Awaitable[Backend]]:
        clock = ManualClock()

        async def open_again() -> Backend:
            backend = SqliteBackend(tmp_path / "store.db", clock=clock)
            await backend.open()
            return backend

        return open_again
