"""Opening, closing and persistence, on every implementation."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from antiphon_core.clock import ManualClock
from antiphon_store import testing
from antiphon_store.service import StoreService
from antiphon_store.testing.persistence import Reopen
from tests.contract.store.implementations import BACKENDS, Durable, Implementation


class TestLifecycle(testing.LifecycleSuite):
    @pytest.fixture
    def store(self, implementation: Implementation, tmp_path: Path) -> StoreService:
        rows, _peer = BACKENDS[implementation.backend].open_pair(ManualClock(), tmp_path)
        return StoreService(rows)


@pytest.fixture(scope="module")
def durable(implementation: Implementation) -> Iterator[Durable]:
    durable = BACKENDS[implementation.backend].durable
    assert durable is not None, "a backend that lacks durable data says so"
    with durable() as data:
        yield data


class TestPersistence(testing.PersistenceSuite):
    @pytest.fixture
    def reopen(self, durable: Durable) -> Reopen:
        openings = count()

        async def open_again() -> StoreService:
            if next(openings):
                durable.restart()
            store = StoreService(durable.make())
            await store.open()
            return store

        return open_again
