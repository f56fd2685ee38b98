from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from antiphon_core.flow import Flow
from antiphon_core.limits import BATCH_BYTES_MAX, BATCH_EVENTS_MAX, STREAM_WAITING_BYTES_MAX
from antiphon_core.ports.store import Status
from antiphon_core.ports.translator import Batch, Final
from antiphon_core.rpc.pusher import Pusher
from antiphon_translator import wire
from antiphon_translator.send_queue import HEARTBEAT, SendQueue

FINAL = Final(Status.COMPLETED, b"{}", b"[]")


def batches(*given: tuple[int, bytes] | tuple[int, bytes, Sequence[int]]) -> list[Batch]:
    """Consecutive batches, each with an event count, frames and perhaps token ids."""
    made, number = list[Batch](), 0
    for count, frames, *ids in given:
        made.append(Batch(number, count, frames, token_ids=ids[0] if ids else ()))
        number += count
    return made


class ScriptedPusher(Pusher):
    """Pushes while it `can`, at the end of an iteration that the test decides on."""

    def __init__(self, *, can: bool = True) -> None:
        self.can = can
        self.pushed: list[Batch] = []
        self.callbacks: list[Callable[[], None]] = []

    def before_write(self, callback: Callable[[], None]) -> None:
        self.callbacks.append(callback)

    def push(self, answer: Any) -> bool:
        if self.can:
            self.pushed.append(wire.batch_value(answer))
        return self.can

    def end_iteration(self) -> None:
        callbacks, self.callbacks = self.callbacks, []
        for callback in callbacks:
            callback()


async def taken(*given: Batch) -> list[Batch]:
    """The batches that are taken from a queue that holds all of these."""
    queue = SendQueue(Flow())
    for batch in given:
        queue.put(batch)
    queue.close()
    result = []
    while (batch := await queue.take()) is not None:  # type: ignore[assignment]
        result.append(batch)
    return result


async def test_waiting_batches_are_joined() -> None:
    assert await taken(*batches((2, b"a"), (1, b"bc"), (3, b"d"))) == [Batch(0, 6, b"abcd", token_ids=[])]


async def test_single_batch_is_passed_on_unchanged() -> None:
    (batch,) = batches((2, b"a", (1, 2)))
    assert (await taken(batch))[0] is batch


async def test_joined_batches_have_their_token_ids_in_order() -> None:
    given = batches((2, b"a"), (1, b"b", (7,)), (1, b"c", (8, 9)))
    assert await taken(*given) == [Batch(0, 4, b"abc", token_ids=[7, 8, 9])]


async def test_batch_without_token_ids_is_not_joined_to_one_with_them() -> None:
    given = batches((1, b"a", (7,)), (1, b"b"), (1, b"c", (8,)))
    assert await taken(*given) == [given[0], Batch(1, 2, b"bc", token_ids=[8])]


async def test_final_batch_is_not_joined() -> None:
    last = Batch(1, 1, b"b", final=FINAL)
    assert await taken(*batches((1, b"a")), last) == [*batches((1, b"a")), last]


async def test_joined_batches_keep_the_limits_of_one() -> None:
    events = await taken(*batches(*((BATCH_EVENTS_MAX // 2, b"a") for _ in range(5))))
    assert [batch.count for batch in events] == [BATCH_EVENTS_MAX, BATCH_EVENTS_MAX, BATCH_EVENTS_MAX // 2]
    bytes_ = await taken(*batches(*((1, bytes(BATCH_BYTES_MAX // 2)) for _ in range(3))))
    assert [len(batch.frames) for batch in bytes_] == [BATCH_BYTES_MAX, BATCH_BYTES_MAX // 2]


async def test_batch_beyond_the_limits_is_sent_alone() -> None:
    large = batches((1, bytes(2 * BATCH_BYTES_MAX)), (1, b"a"))
    assert await taken(*large) == large


async def test_take_waits_for_a_batch_or_the_end() -> None:
    queue = SendQueue(Flow())
    taking = asyncio.create_task(queue.take())
    await asyncio.sleep(0)
    assert not taking.done()
    (batch,) = batches((1, b"a"))
    queue.put(batch)
    assert await taking is batch
    taking = asyncio.create_task(queue.take())
    await asyncio.sleep(0)
    assert not taking.done()
    queue.close()
    assert await taking is None


@pytest.mark.parametrize("frames_bytes", [BATCH_BYTES_MAX, 3 * BATCH_BYTES_MAX // 4])
async def test_full_queue_pauses_the_flow_until_it_is_half_empty(frames_bytes: int) -> None:
    flow = Flow()
    queue = SendQueue(flow)
    put = 0
    while not flow.is_paused:
        put += 1
        queue.put(Batch(put, 1, bytes(frames_bytes)))
        assert put * frames_bytes <= STREAM_WAITING_BYTES_MAX + frames_bytes
    assert put * frames_bytes > STREAM_WAITING_BYTES_MAX
    left = put
    while flow.is_paused:
        assert left * frames_bytes > STREAM_WAITING_BYTES_MAX // 2
        await queue.take()
        left -= 1
    assert left * frames_bytes <= STREAM_WAITING_BYTES_MAX // 2


async def test_heartbeat_is_sent_only_with_an_empty_queue() -> None:
    queue = SendQueue(Flow())
    queue.beat()
    assert await queue.take() is HEARTBEAT
    queue.beat()
    (one,) = batches((1, b"a"))
    queue.put(one)
    assert await queue.take() == one
    queue.close()
    assert await queue.take() is None


async def test_batches_of_one_iteration_are_joined_and_pushed() -> None:
    pusher = ScriptedPusher()
    queue = SendQueue(Flow(), pusher)
    for batch in batches((1, b"a"), (1, b"b")):
        queue.put(batch)
    assert len(pusher.callbacks) == 1
    pusher.end_iteration()
    queue.close()
    assert (pusher.pushed, await queue.take()) == ([Batch(0, 2, b"ab")], None)


async def test_batch_that_cannot_be_pushed_is_taken_before_later_ones() -> None:
    pusher = ScriptedPusher(can=False)
    queue, given = SendQueue(Flow(), pusher), batches((1, b"a"), (1, b"b"))
    queue.put(given[0])
    taking = asyncio.create_task(queue.take())
    pusher.end_iteration()
    queue.put(given[1])
    assert await taking == Batch(0, 2, b"ab", token_ids=[])
    pusher.end_iteration()
    assert pusher.pushed == []


async def test_batches_that_are_taken_before_the_end_of_the_iteration_are_not_pushed() -> None:
    pusher = ScriptedPusher()
    queue, given = SendQueue(Flow(), pusher), batches((1, b"a"))
    queue.put(given[0])
    assert await queue.take() == given[0]
    pusher.end_iteration()
    assert pusher.pushed == []


async def test_batch_of_a_closed_queue_is_taken() -> None:
    pusher, (batch,) = ScriptedPusher(), batches((1, b"a"))
    queue = SendQueue(Flow(), pusher)
    queue.close()
    queue.put(batch)
    assert (pusher.callbacks, await queue.take()) == ([], batch)


async def test_pushed_batches_resume_the_flow() -> None:
    flow, pusher = Flow(), ScriptedPusher()
    SendQueue(flow, pusher).put(Batch(0, 1, b"x" * (STREAM_WAITING_BYTES_MAX + 1)))
    assert flow.is_paused
    pusher.end_iteration()
    assert not flow.is_paused


async def test_batch_that_cannot_be_serialized_is_taken_and_not_lost() -> None:
    pusher, (batch,) = ScriptedPusher(), batches((1, b"a", (-1,)))
    queue = SendQueue(Flow(), pusher)
    taking = asyncio.create_task(queue.take())
    await asyncio.sleep(0)
    queue.put(batch)
    pusher.end_iteration()
    assert (await taking, pusher.pushed) == (batch, [])
