from __future__ import annotations

import asyncio

import pytest

from antiphon_core.errors import SessionLocked, StoreUnavailable
from antiphon_store.waiting import WaitingLines
from tests.support.waiting import until

KEY = ("tenant", "session")
Q = ("t", "q")
NEVER_S = 3600.0


class Lock:
    """A lock that can be taken while it is free."""

    def __init__(self) -> None:
        self.free = False
        self.attempts = 0

    async def take(self) -> str:
        self.attempts += 1
        if not self.free:
            raise SessionLocked.of("session")
        self.free = False
        return "mine"


async def test_a_free_lock_is_taken_at_once() -> None:
    lock = Lock()
    lock.free = True
    assert await WaitingLines(poll_s=NEVER_S).until_free(KEY, lock.take, wait_ms=0) == "mine"


async def test_a_wait_of_zero_makes_one_attempt() -> None:
    lock = Lock()
    with pytest.raises(SessionLocked):
        await WaitingLines(poll_s=NEVER_S).until_free(KEY, lock.take, wait_ms=0)
    assert lock.attempts == 1


async def test_a_wake_up_ends_the_wait() -> None:
    queue, lock = WaitingLines(poll_s=NEVER_S), Lock()
    waiting = asyncio.create_task(queue.until_free(KEY, lock.take, wait_ms=60_000))
    await asyncio.sleep(0)
    lock.free = True
    queue.wake_first(KEY)
    assert await asyncio.wait_for(waiting, 30) == "mine"
    assert lock.attempts == 2


async def test_a_wake_up_for_another_key_does_not_end_the_wait() -> None:
    queue, lock = WaitingLines(poll_s=NEVER_S), Lock()
    waiting = asyncio.create_task(queue.until_free(KEY, lock.take, wait_ms=60_000))
    await asyncio.sleep(0)
    queue.wake_first(("tenant", "other"))
    queue.wake_first(("other", "session"))
    await asyncio.sleep(0.01)
    assert lock.attempts == 1
    waiting.cancel()


async def test_polling_takes_a_lock_that_was_freed_without_a_wake_up() -> None:
    queue, lock = WaitingLines(poll_s=0.005), Lock()
    waiting = asyncio.create_task(queue.until_free(KEY, lock.take, wait_ms=60_000))
    await asyncio.sleep(0.02)
    lock.free = True
    assert await asyncio.wait_for(waiting, 30) == "mine"


async def test_a_timed_out_wait_makes_a_last_attempt() -> None:
    queue, lock = WaitingLines(poll_s=NEVER_S), Lock()
    with pytest.raises(SessionLocked):
        await asyncio.wait_for(queue.until_free(KEY, lock.take, wait_ms=10), 30)
    assert lock.attempts == 2


async def test_waiters_of_a_lock_are_woken_in_order() -> None:
    queue, lock = WaitingLines(poll_s=NEVER_S), Lock()
    order: list[int] = []

    async def wait(number: int) -> None:
        await queue.until_free(KEY, lock.take, wait_ms=60_000)
        order.append(number)

    waiting = [asyncio.create_task(wait(number)) for number in range(3)]
    await asyncio.sleep(0)
    for _ in range(3):
        lock.free = True
        queue.wake_first(KEY)
        await until(lambda: not lock.free, "the woken waiter takes the lock")
    await asyncio.wait_for(asyncio.gather(*waiting), 30)
    assert order == [0, 1, 2]


async def test_a_cancelled_waiter_is_not_woken() -> None:
    queue, lock = WaitingLines(poll_s=NEVER_S), Lock()
    first = asyncio.create_task(queue.until_free(KEY, lock.take, wait_ms=60_000))
    second = asyncio.create_task(queue.until_free(KEY, lock.take, wait_ms=60_000))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait([first])
    lock.free = True
    queue.wake_first(KEY)
    assert await asyncio.wait_for(second, 30) == "mine"


# ---- Jobs ----


class Jobs:
    """Claimable jobs, with a count of the attempts."""

    def __init__(self) -> None:
        self.there: list[str] = []
        self.attempts = 0

    async def claim(self) -> str | None:
        self.attempts += 1
        return self.there.pop() if self.there else None


async def test_a_claim_without_waiting_makes_one_attempt() -> None:
    jobs = Jobs()
    assert await WaitingLines(poll_s=0.001).until_there([Q], jobs.claim, wait_ms=0) is None
    assert jobs.attempts == 1


async def test_a_wake_up_reaches_the_first_claimer_of_the_queue() -> None:
    jobs, claimers = Jobs(), WaitingLines(poll_s=60)
    waiting = [
        asyncio.create_task(claimers.until_there([("t", queue) for queue in queues], jobs.claim, wait_ms=60_000))
        for queues in (["r"], ["q", "r", "q"], ["q"])
    ]
    await asyncio.sleep(0.01)
    jobs.there.append("job")
    claimers.wake_first(Q)
    claimers.wake_first(("other", "q"))
    assert await asyncio.wait_for(waiting[1], 30) == "job"
    assert jobs.attempts == 4
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert not claimers._lines


async def test_polling_claims_a_job_that_came_without_a_wake_up() -> None:
    jobs, claimers = Jobs(), WaitingLines(poll_s=0.005)
    waiting = asyncio.create_task(claimers.until_there([Q], jobs.claim, wait_ms=60_000))
    await asyncio.sleep(0.01)
    jobs.there.append("job")
    assert await asyncio.wait_for(waiting, 30) == "job"


async def test_a_timed_out_claim_returns_none_after_a_last_attempt() -> None:
    jobs = Jobs()
    assert await WaitingLines(poll_s=60).until_there([Q], jobs.claim, wait_ms=20) is None
    assert jobs.attempts == 2


# ---- Event logs ----


async def test_a_wake_up_reaches_every_follower_of_its_log_only() -> None:
    followers = WaitingLines(poll_s=60)
    with followers.waiter([KEY]) as one, followers.waiter([KEY]) as two, followers.waiter([("t", "x")]) as other:
        waiting = [asyncio.create_task(waiter.wait()) for waiter in (one, two, other)]
        await asyncio.sleep(0)
        followers.wake_all(KEY)
        await asyncio.wait_for(asyncio.gather(*waiting[:2]), 30)
        assert not waiting[2].done()
        waiting[2].cancel()


async def test_a_wake_up_before_the_wait_is_not_lost() -> None:
    followers = WaitingLines(poll_s=60)
    with followers.waiter([KEY]) as waiter:
        followers.wake_all(KEY)
        await asyncio.wait_for(waiter.wait(), 30)
        waiting = asyncio.create_task(waiter.wait())
        await asyncio.sleep(0.01)
        assert not waiting.done()
        waiting.cancel()


async def test_a_wait_without_a_wake_up_ends_at_the_poll_interval() -> None:
    with WaitingLines(poll_s=0.01).waiter([KEY]) as waiter:
        await asyncio.wait_for(waiter.wait(), 30)


async def test_followers_that_left_are_forgotten() -> None:
    followers = WaitingLines(poll_s=60)
    with followers.waiter([KEY]):
        pass
    followers.wake_all(KEY)
    assert not followers._lines


# ---- The process stops ----


async def test_a_stopping_process_ends_waits_for_sessions_as_unavailable() -> None:
    queue, lock = WaitingLines(poll_s=NEVER_S), Lock()
    waiting = asyncio.create_task(queue.until_free(KEY, lock.take, wait_ms=60_000))
    await asyncio.sleep(0)
    queue.end_waits()
    for each in (waiting, queue.until_free(KEY, lock.take, wait_ms=60_000)):
        with pytest.raises(StoreUnavailable) as caught:
            await each
        assert caught.value.is_away  # the caller retries at the next process
    lock.free = True
    assert await queue.until_free(KEY, lock.take, wait_ms=60_000) == "mine"


async def test_a_stopping_process_ends_waits_for_jobs_without_a_job() -> None:
    jobs, claimers = Jobs(), WaitingLines(poll_s=NEVER_S)
    waiting = asyncio.create_task(claimers.until_there([Q], jobs.claim, wait_ms=3_600_000))
    await asyncio.sleep(0)
    claimers.end_waits()
    assert await waiting is None
    assert await claimers.until_there([Q], jobs.claim, wait_ms=3_600_000) is None
    jobs.there.append("job")
    assert await claimers.until_there([Q], jobs.claim, wait_ms=3_600_000) == "job"


async def test_a_stopping_process_ends_waits_of_followers_as_unavailable() -> None:
    followers = WaitingLines(poll_s=NEVER_S)
    with followers.waiter([KEY]) as waiter:
        waiting = asyncio.create_task(waiter.wait())
        await asyncio.sleep(0)
        followers.end_waits()
        await waiting  # ends without an error, for a last look at the log
        with followers.waiter([KEY]) as later:
            for each in (waiter, later):
                with pytest.raises(StoreUnavailable):
                    await each.wait()
