"""That it refuses what writes and nothing else: the suite. Here, how it is opened."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from antiphon_store.backends.engine import StoreEngine
from antiphon_store.backends.registry import open_backend
from antiphon_store.testing import ReadOnlySuite
from antiphon_store.wrappers.readonly import ReadOnlyBackend


class TestReadOnly(ReadOnlySuite):
    @pytest.fixture
    async def writable(self) -> AsyncIterator[StoreEngine]:
        backend = open_backend("memory://")
        await backend.open()
        yield backend
        await backend.close()

    @pytest.fixture
    def readonly(self, writable: StoreEngine) -> StoreEngine:
        return ReadOnlyBackend(writable)


async def test_it_opens_and_closes_its_engine() -> None:
    backend = ReadOnlyBackend(open_backend("memory://"))
    await backend.open()
    await backend.ready()
    await backend.close()
