from __future__ import annotations

import asyncio

from antiphon_store.jobs.waiting import Claimers


class Jobs:
    """Jobs that can be claimed, counted by queue-less attempts."""

    def __init__(self) -> None:
        self.there: list[str] = []
        self.attempts = 0

    async def claim(self) -> str | None:
        self.attempts += 1
        return self.there.pop() if self.there else None


async def test_one_who_need_not_wait_asks_once() -> None:
    jobs = Jobs()
    assert await Claimers(poll_s=0.001).until_there("t", ["q"], jobs.claim, wait_ms=0) is None
    assert jobs.attempts == 1


async def test_the_first_in_line_is_woken() -> None:
    jobs, claimers = Jobs(), Claimers(poll_s=60)
    waiting = [
        asyncio.create_task(claimers.until_there("t", queues, jobs.claim, wait_ms=60_000))
        for queues in (["r"], ["q", "r", "q"], ["q"])
    ]
    await asyncio.sleep(0.01)
    jobs.there.append("job")
    claimers.wake("t", "q")
    claimers.wake("other", "q")
    assert await asyncio.wait_for(waiting[1], 30) == "job"
    assert jobs.attempts == 4
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert not claimers._lines


async def test_polling_finds_what_nobody_told() -> None:
    jobs, claimers = Jobs(), Claimers(poll_s=0.005)
    waiting = asyncio.create_task(claimers.until_there("t", ["q"], jobs.claim, wait_ms=60_000))
    await asyncio.sleep(0.01)
    jobs.there.append("job")
    assert await asyncio.wait_for(waiting, 30) == "job"


async def test_waiting_has_an_end() -> None:
    jobs = Jobs()
    assert await Claimers(poll_s=60).until_there("t", ["q"], jobs.claim, wait_ms=20) is None
    assert jobs.attempts == 2


async def test_a_process_that_stops_ends_all_waiting() -> None:
    jobs, claimers = Jobs(), Claimers(poll_s=3600)
    waiting = asyncio.create_task(claimers.until_there("t", ["q"], jobs.claim, wait_ms=3_600_000))
    await asyncio.sleep(0)
    claimers.end_waits()
    assert await waiting is None
    assert await claimers.until_there("t", ["q"], jobs.claim, wait_ms=3_600_000) is None
    jobs.there.append("job")
    assert await claimers.until_there("t", ["q"], jobs.claim, wait_ms=3_600_000) == "job"
