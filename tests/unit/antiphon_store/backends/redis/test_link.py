from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from antiphon_store.backends.redis.link import cancellation_kept


async def swallow(*, error: Exception | None = None) -> None:
    with suppress(asyncio.CancelledError):
        await asyncio.sleep(3600)
    if error is not None:
        raise error


@pytest.mark.parametrize("error", [None, OSError("gone")])
async def test_a_swallowed_cancellation_is_raised_again(error: Exception | None) -> None:
    async def call() -> None:
        with cancellation_kept():
            await swallow(error=error)

    calling = asyncio.create_task(call())
    await asyncio.sleep(0)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(calling, 30)


async def test_a_timeout_whose_cancellation_was_swallowed_is_still_raised() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            with cancellation_kept():
                await swallow()


async def test_cleanup_after_a_cancellation_is_not_cancelled_again() -> None:
    tidied = asyncio.Event()

    async def call() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            with cancellation_kept():
                await asyncio.sleep(0)
            tidied.set()

    calling = asyncio.create_task(call())
    await asyncio.sleep(0)
    calling.cancel()
    await asyncio.wait([calling])
    assert tidied.is_set()


async def test_a_timeout_inside_the_block_is_not_raised_as_a_cancellation() -> None:
    with cancellation_kept(), pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await asyncio.sleep(1)
