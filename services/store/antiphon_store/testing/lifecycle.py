"""Opening and closing a store. The fixture is `store`, an unopened store that the test closes."""

# ruff: noqa: S101 - asserting is what a suite does

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from antiphon_core.errors import AntiphonError, StoreUnavailable, Unimplemented
from antiphon_store.rows.backend import Durability
from antiphon_store.service import StoreService
from antiphon_store.testing.calls import CALLS
from antiphon_store.testing.subject import SOON_S, draft


async def outcomes(store: StoreService) -> dict[str, type[AntiphonError] | None]:
    """The error of each operation, or None. Unimplemented operations are left out, as they fail even before opening."""
    found: dict[str, type[AntiphonError] | None] = {}
    for name, call in CALLS.items():
        try:
            await call(store)
            found[name] = None
        except Unimplemented:
            continue
        except AntiphonError as error:
            found[name] = type(error)
    return found


async def ready_soon(store: StoreService) -> None:
    """Retries `ready`, whose short timeout a server on a busy machine may exceed at first."""
    async with asyncio.timeout(SOON_S):
        while True:
            try:
                return await store.ready()
            except StoreUnavailable:
                await asyncio.sleep(0.05)


async def assert_unavailable(store: StoreService) -> None:
    answered = [name for name, error in (await outcomes(store)).items() if error is not StoreUnavailable]
    assert not answered


class LifecycleSuite:
    @pytest.fixture
    async def opened(self, store: StoreService) -> AsyncIterator[StoreService]:
        await store.open()
        yield store
        await store.close()

    async def test_an_open_store_is_ready(self, opened: StoreService) -> None:
        await ready_soon(opened)
        assert opened.durability in set(Durability)

    async def test_an_open_store_serves_every_operation(self, opened: StoreService) -> None:
        found = await outcomes(opened)
        del found["ready"]  # may time out: see `ready_soon`
        assert StoreUnavailable not in found.values()

    async def test_an_unopened_store_is_unavailable(self, store: StoreService) -> None:
        await assert_unavailable(store)

    async def test_a_closed_store_is_unavailable(self, opened: StoreService) -> None:
        await opened.close()
        await assert_unavailable(opened)

    async def test_closing_twice_does_nothing(self, opened: StoreService) -> None:
        await opened.close()
        await opened.close()

    async def test_closing_an_unopened_store_does_nothing(self, store: StoreService) -> None:
        await store.close()

    async def test_calls_before_closing_are_answered(self, opened: StoreService) -> None:
        records = [draft() for _ in range(20)]
        writing = [asyncio.create_task(opened.put("t", record)) for record in records]
        await asyncio.sleep(0)
        await opened.close()
        assert [stamp.version for stamp in await asyncio.gather(*writing)] == [1] * 20
