from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from antiphon_core.flow import Flow
from antiphon_core.limits import BATCH_BYTES_MAX, BATCH_EVENTS_MAX, STREAM_WAITING_BYTES_MAX
from antiphon_core.ports.store import Status
from antiphon_core.ports.translator import Batch, Final
from antiphon_translator.send_queue import HEARTBEAT, SendQueue

FINAL = Final(Status.COMPLETED, b"{}", b"[]")


def batches(*given: tuple[int, bytes] | tuple[int, bytes, Sequence[int]]) -> list[Batch]:
    """Consecutive batches, each with an event count, frames and perhaps token ids."""
    made, number = list[Batch](), 0
    for count, frames, *ids in given:
        made.append(Batch(number, count, frames, token_ids=ids[0] if ids else ()))
        number += count
    return made


def sending_to(sent: list[Batch], *, can: bool = True) -> Callable[[Batch], bool]:
    """A push that notes its batches, and returns whether it `can`."""

    def push(batch: Batch) -> bool:
        sent.append(batch)
        return can

    return push


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


async def test_batch_is_pushed_where_nothing_waits() -> None:
    sent = list[Batch]()
    queue, given = SendQueue(Flow(), sending_to(sent)), batches((1, b"a"), (1, b"b"))
    for batch in given:
        queue.put(batch)
    queue.close()
    assert (sent, await queue.take()) == (given, None)


async def test_batch_behind_one_that_could_not_be_pushed_waits_too() -> None:
    tried = list[Batch]()
    queue, given = SendQueue(Flow(), sending_to(tried, can=False)), batches((1, b"a"), (1, b"b"), (1, b"c"))
    for batch in given[:2]:
        queue.put(batch)
    assert (tried, await queue.take()) == (given[:1], Batch(0, 2, b"ab", token_ids=[]))
    queue.put(given[2])
    assert tried == [given[0], given[2]]


async def test_batch_of_a_closed_queue_is_not_pushed() -> None:
    sent, (batch,) = list[Batch](), batches((1, b"a"))
    queue = SendQueue(Flow(), sending_to(sent))
    queue.close()
    queue.put(batch)
    assert (sent, await queue.take()) == ([], batch)
