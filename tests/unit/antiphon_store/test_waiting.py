from __future__ import annotations

import asyncio

import pytest

from antiphon_core.errors import SessionLocked, StoreUnavailable
from antiphon_store.waiting import SessionQueue

KEY = ("tenant", "session")
NEVER_S = 3600.0


class Lock:
    """Something that can be had when it is free."""

    def __init__(self) -> None:
        self.free = False
        self.attempts = 0

    async def take(self) -> str:
        self.attempts += 1
        if not self.free:
            raise SessionLocked.of("session")
        self.free = False
        return "mine"


async def test_what_is_free_is_had_at_once() -> None:
    lock = Lock()
    lock.free = True
    assert await SessionQueue(poll_s=NEVER_S).until_free(KEY, lock.take, wait_ms=0) == "mine"


async def test_without_waiting_there_is_one_attempt() -> None:
    lock = Lock()
    with pytest.raises(SessionLocked):
        await SessionQueue(poll_s=NEVER_S).until_free(KEY, lock.take, wait_ms=0)
    assert lock.attempts == 1


async def test_a_wake_up_ends_the_wait() -> None:
    queue, lock = SessionQueue(poll_s=NEVER_S), Lock()
    waiting = asyncio.create_task(queue.until_free(KEY, lock.take, wait_ms=60_000))
    await asyncio.sleep(0)
    lock.free = True
    queue.wake(KEY)
    assert await asyncio.wait_for(waiting, 30) == "mine"
    assert lock.attempts == 2


async def test_a_wake_up_for_others_does_not() -> None:
    queue, lock = SessionQueue(poll_s=NEVER_S), Lock()
    waiting = asyncio.create_task(queue.until_free(KEY, lock.take, wait_ms=60_000))
    await asyncio.sleep(0)
    queue.wake(("tenant", "other"))
    queue.wake(("other", "session"))
    await asyncio.sleep(0.01)
    assert lock.attempts == 1
    waiting.cancel()


async def test_polling_finds_what_nobody_announced() -> None:
    queue, lock = SessionQueue(poll_s=0.005), Lock()
    waiting = asyncio.create_task(queue.until_free(KEY, lock.take, wait_ms=60_000))
    await asyncio.sleep(0.02)
    lock.free = True
    assert await asyncio.wait_for(waiting, 30) == "mine"


async def test_the_wait_ends_with_a_last_attempt() -> None:
    queue, lock = SessionQueue(poll_s=NEVER_S), Lock()
    with pytest.raises(SessionLocked):
        await asyncio.wait_for(queue.until_free(KEY, lock.take, wait_ms=10), 30)
    assert lock.attempts == 2


async def test_those_in_line_are_woken_in_turn() -> None:
    queue, lock = SessionQueue(poll_s=NEVER_S), Lock()
    order: list[int] = []

    async def wait(number: int) -> None:
        await queue.until_free(KEY, lock.take, wait_ms=60_000)
        order.append(number)

    waiting = [asyncio.create_task(wait(number)) for number in range(3)]
    await asyncio.sleep(0)
    for _ in range(3):
        lock.free = True
        queue.wake(KEY)
        while lock.free:
            await asyncio.sleep(0)
    await asyncio.wait_for(asyncio.gather(*waiting), 30)
    assert order == [0, 1, 2]


async def test_who_gave_up_is_not_woken() -> None:
    queue, lock = SessionQueue(poll_s=NEVER_S), Lock()
    first = asyncio.create_task(queue.until_free(KEY, lock.take, wait_ms=60_000))
    second = asyncio.create_task(queue.until_free(KEY, lock.take, wait_ms=60_000))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait([first])
    lock.free = True
    queue.wake(KEY)
    assert await asyncio.wait_for(second, 30) == "mine"


async def test_a_process_that_stops_ends_all_waiting() -> None:
    queue, lock = SessionQueue(poll_s=NEVER_S), Lock()
    waiting = asyncio.create_task(queue.until_free(KEY, lock.take, wait_ms=60_000))
    await asyncio.sleep(0)
    queue.end_waits()
    for each in (waiting, queue.until_free(KEY, lock.take, wait_ms=60_000)):
        with pytest.raises(StoreUnavailable) as caught:
            await each
        assert caught.value.is_away  # the caller goes on with the next process
    lock.free = True
    assert await queue.until_free(KEY, lock.take, wait_ms=60_000) == "mine"
