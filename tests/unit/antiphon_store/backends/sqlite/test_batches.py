from __future__ import annotations

import asyncio

import pytest

from antiphon_core.errors import StoreUnavailable
from antiphon_store.backends.sqlite.batches import CallQueue, Outcome


def nothing(_connection: object) -> None:
    """An atom."""


async def queued(calls: CallQueue, count: int) -> list[asyncio.Task[None]]:
    """So many calls of one turn of the loop, handed over."""
    tasks = [asyncio.create_task(calls.run(nothing)) for _ in range(count)]
    for _ in range(3):
        await asyncio.sleep(0)
    return tasks


async def test_calls_of_one_turn_of_the_loop_are_one_batch() -> None:
    calls = CallQueue(batch_max=100)
    tasks = await queued(calls, 5)
    batch = calls.next_batch()
    assert batch is not None
    assert len(batch) == 5
    assert calls.more() == []
    calls.deliver(batch, [Outcome()] * 5)
    await asyncio.gather(*tasks)


async def test_a_batch_is_bounded_and_shared_among_threads() -> None:
    calls = CallQueue(batch_max=4, threads=2)
    tasks = await queued(calls, 6)
    tasks += await queued(calls, 10)
    calls.close()
    batches = list(iter(calls.next_batch, None))
    assert [len(each) for each in batches] == [3, 3, 4, 4, 2]
    for each in batches:
        calls.deliver(each, [Outcome()] * len(each))
    await asyncio.gather(*tasks)


async def test_an_answer_or_an_error_reaches_its_caller() -> None:
    calls = CallQueue(batch_max=10)
    first, second = await queued(calls, 2)
    calls.deliver(calls.next_batch() or [], [Outcome(), Outcome(error=StoreUnavailable("gone"))])
    await first
    with pytest.raises(StoreUnavailable, match="gone"):
        await second


async def test_a_closed_queue_takes_no_calls_and_ends_all_threads() -> None:
    calls = CallQueue(batch_max=10)
    calls.close()
    with pytest.raises(StoreUnavailable):
        await calls.run(nothing)
    assert calls.next_batch() is None
    assert calls.next_batch() is None
