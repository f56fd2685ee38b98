from __future__ import annotations

import asyncio

from antiphon_core.limits import STREAM_WAITING_BYTES_MAX
from antiphon_edge.websocket.outbox import Outbox


async def test_everything_that_waits_is_taken_together() -> None:
    outbox = Outbox()
    outbox.put([b"1", b"2"])
    outbox.put([b"3"])
    assert await outbox.take() == [b"1", b"2", b"3"]


async def test_a_taker_waits_for_the_next_message() -> None:
    outbox = Outbox()
    taking = asyncio.ensure_future(outbox.take())
    await asyncio.sleep(0)
    assert not taking.done()
    outbox.put([b"1"])
    assert await taking == [b"1"]


async def test_a_closed_outbox_is_emptied_and_then_gives_nothing() -> None:
    outbox = Outbox()
    outbox.put([b"1"])
    outbox.close()
    assert await outbox.take() == [b"1"]
    assert not await outbox.take()


async def test_the_flow_is_paused_while_too_much_waits() -> None:
    outbox = Outbox()
    outbox.put([b"x" * STREAM_WAITING_BYTES_MAX])
    assert not outbox.flow.is_paused
    outbox.put([b"x"])
    assert outbox.flow.is_paused
    await outbox.take()
    assert not outbox.flow.is_paused
