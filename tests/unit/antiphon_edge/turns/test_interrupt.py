from __future__ import annotations

import asyncio

import pytest

from antiphon_edge.turns.interrupt import Interrupt


async def test_work_without_an_interrupt_returns_its_result() -> None:
    async def work() -> int:
        return 7

    assert await Interrupt().run(work()) == 7


async def test_interrupted_work_is_cancelled_and_raises_the_first_error() -> None:
    interrupt, stopped = Interrupt(), asyncio.Event()

    async def work() -> None:
        interrupt.break_off(ValueError("first"))
        interrupt.break_off(ValueError("second"))
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    with pytest.raises(ValueError, match="first"):
        await interrupt.run(work())
    assert stopped.is_set()
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_work_that_begins_after_the_interrupt_fails_at_once() -> None:
    interrupt = Interrupt()
    interrupt.break_off(ValueError("over"))

    async def work() -> None:
        raise AssertionError("it must not begin")

    with pytest.raises(ValueError, match="over"):
        await interrupt.run(work())


async def test_a_timeout_of_the_work_itself_is_raised_as_it_is() -> None:
    async def work() -> None:
        raise TimeoutError("mine")

    with pytest.raises(TimeoutError, match="mine"):
        await Interrupt().run(work())


async def test_the_task_that_awaits_can_be_cancelled_by_others() -> None:
    awaiting = asyncio.create_task(Interrupt().run(asyncio.Event().wait()))
    await asyncio.sleep(0)
    awaiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await awaiting
