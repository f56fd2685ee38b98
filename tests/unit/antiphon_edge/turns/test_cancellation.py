from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from antiphon_edge.turns import cancellation


async def test_a_loop_whose_calls_swallow_cancellations_ends() -> None:
    rounds = 0

    async def loop() -> None:
        nonlocal rounds
        while True:
            rounds += 1
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(3600)
            cancellation.heed()

    looping = asyncio.create_task(loop())
    await asyncio.sleep(0)
    looping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(looping, 5)
    assert rounds == 1


async def test_who_was_not_cancelled_goes_on() -> None:
    cancellation.heed()
