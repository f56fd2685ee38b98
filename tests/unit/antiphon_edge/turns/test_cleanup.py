from __future__ import annotations

import asyncio
import logging

import pytest

from antiphon_core.errors import StoreUnavailable
from antiphon_edge.turns.cleanup import Cleanup


class Work:
    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.is_done = False

    async def do(self) -> str:
        await self.go.wait()
        self.is_done = True
        return "done"


async def test_a_caller_that_is_cancelled_leaves_the_work_running() -> None:
    cleanup, work = Cleanup(), Work()
    caller = asyncio.create_task(cleanup.finish(work.do()))
    await asyncio.sleep(0)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    work.go.set()
    await cleanup.settle()
    assert work.is_done


async def test_result_and_error_of_the_work_reach_the_caller() -> None:
    async def fail() -> None:
        raise StoreUnavailable("gone")

    cleanup, work = Cleanup(), Work()
    work.go.set()
    assert await cleanup.finish(work.do()) == "done"
    with pytest.raises(StoreUnavailable):
        await cleanup.finish(fail())
    await cleanup.settle()


async def test_failed_scheduled_work_is_logged_and_not_raised(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        raise StoreUnavailable("gone")

    cleanup = Cleanup()
    with caplog.at_level(logging.ERROR):
        cleanup.schedule(fail(), "the record is lost")
        await cleanup.settle()
    assert caplog.messages == ["the record is lost: gone"]


async def test_settling_waits_for_work_that_scheduled_work_adds() -> None:
    cleanup, work = Cleanup(), Work()

    async def begin_more() -> None:
        cleanup.schedule(work.do(), "more")
        work.go.set()

    cleanup.schedule(begin_more(), "first")
    await cleanup.settle()
    assert work.is_done
