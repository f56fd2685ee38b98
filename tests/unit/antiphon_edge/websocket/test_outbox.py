from __future__ import annotations

import asyncio

from antiphon_core.limits import BATCH_BYTES_MAX, STREAM_WAITING_BYTES_MAX
from antiphon_edge.websocket.outbox import LaneQueue, Outbox


async def test_messages_of_the_lanes_are_taken_in_turn() -> None:
    outbox = Outbox()
    first, second = LaneQueue(outbox), LaneQueue(outbox)
    first.put([b"a1", b"a2", b"a3"])
    second.put([b"b1"])
    second.put([b"b2"])
    assert await outbox.take() == [b"a1", b"b1", b"a2", b"b2", b"a3"]


async def test_later_lane_waits_for_at_most_one_batch_of_a_busy_lane() -> None:
    outbox = Outbox()
    much, little = LaneQueue(outbox), LaneQueue(outbox)
    part = b"x" * (BATCH_BYTES_MAX // 2)
    much.put([part] * 5)
    assert await outbox.take() == [part, part]
    little.put([b"y"])
    assert await outbox.take() == [part, b"y", part]


async def test_a_taker_waits_for_the_next_message() -> None:
    outbox = Outbox()
    taking = asyncio.ensure_future(outbox.take())
    await asyncio.sleep(0)
    LaneQueue(outbox).put([])
    await asyncio.sleep(0)
    assert not taking.done()
    LaneQueue(outbox).put([b"1"])
    assert await taking == [b"1"]


async def test_a_closed_outbox_is_emptied_and_then_gives_nothing() -> None:
    outbox = Outbox()
    LaneQueue(outbox).put([b"1"])
    outbox.close()
    assert await outbox.take() == [b"1"]
    assert not await outbox.take()


async def test_a_lane_knows_when_its_last_message_was_sent() -> None:
    outbox = Outbox()
    lane = LaneQueue(outbox)
    await lane.wait_until_sent()
    lane.put([b"1"])
    sent = asyncio.ensure_future(lane.wait_until_sent())
    await outbox.take()
    await asyncio.sleep(0)
    assert not sent.done()  # taken, but perhaps not sent yet
    taking = asyncio.ensure_future(outbox.take())
    await sent
    taking.cancel()


async def test_backpressure_limit_is_shared_by_all_lanes() -> None:
    outbox = Outbox()
    first, second = LaneQueue(outbox), LaneQueue(outbox)
    first.put([b"x" * STREAM_WAITING_BYTES_MAX])
    assert not first.flow.is_paused
    second.put([b"y"])
    assert second.flow.is_paused
    first.put([b"x"])
    assert first.flow.is_paused
    await outbox.take()
    assert first.flow.is_paused
    assert second.flow.is_paused  # the messages that were taken are perhaps not sent yet
    await outbox.take()
    assert not first.flow.is_paused
    assert not second.flow.is_paused


async def test_a_lane_waits_for_room_before_it_begins() -> None:
    outbox = Outbox()
    full, new = LaneQueue(outbox), LaneQueue(outbox)
    await new.wait_for_room()
    full.put([b"x" * (STREAM_WAITING_BYTES_MAX + 1)])
    waiting = asyncio.ensure_future(new.wait_for_room())
    await outbox.take()
    await asyncio.sleep(0)
    assert not waiting.done()
    taking = asyncio.ensure_future(outbox.take())
    await waiting
    taking.cancel()
