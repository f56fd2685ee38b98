from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable

import pytest

from antiphon_translator.offload import INLINE_BYTES_MAX, WorkPool

LONG = INLINE_BYTES_MAX + 1


class Gate:
    """Holds up the threads that come to it, and notes in which order they do."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.entered: list[int] = []
        self.threads: set[threading.Thread] = set()

    def work(self, number: int) -> Callable[[], int]:
        def pass_through() -> int:
            self.entered.append(number)
            self.threads.add(threading.current_thread())
            self.open.wait()
            return number

        return pass_through

    async def until_entered(self, count: int) -> None:
        while len(self.entered) < count:
            await asyncio.sleep(0.001)


@pytest.fixture
async def gate() -> AsyncIterator[Gate]:
    made = Gate()
    yield made
    made.open.set()


@pytest.fixture
async def pool() -> AsyncIterator[WorkPool]:
    made = WorkPool(threads=1)
    yield made
    made.close()


@pytest.mark.parametrize(("size_bytes", "is_here"), [(INLINE_BYTES_MAX, True), (LONG, False)])
async def test_only_long_work_goes_to_another_thread(pool: WorkPool, size_bytes: int, is_here: bool) -> None:
    thread = await pool.run(threading.current_thread, size_bytes=size_bytes)
    assert (thread is threading.current_thread()) is is_here


async def test_work_waits_in_the_order_in_which_it_came(pool: WorkPool, gate: Gate) -> None:
    tasks = [asyncio.create_task(pool.run(gate.work(number), size_bytes=LONG)) for number in range(5)]
    await gate.until_entered(1)
    gate.open.set()
    assert await asyncio.gather(*tasks) == [0, 1, 2, 3, 4]
    assert gate.entered == [0, 1, 2, 3, 4]
    assert len(gate.threads) == 1


async def test_who_goes_away_while_waiting_gives_up_the_place(pool: WorkPool, gate: Gate) -> None:
    first, second, third = (asyncio.create_task(pool.run(gate.work(n), size_bytes=LONG)) for n in range(3))
    await gate.until_entered(1)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    gate.open.set()
    assert [await first, await third] == [0, 2]
    assert gate.entered == [0, 2]


@pytest.mark.parametrize("size_bytes", [0, LONG])
async def test_what_goes_wrong_is_raised_to_who_waits(pool: WorkPool, size_bytes: int) -> None:
    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await pool.run(fail, size_bytes=size_bytes)


async def test_several_threads_work_side_by_side(gate: Gate) -> None:
    pool = WorkPool(threads=3)
    tasks = [asyncio.create_task(pool.run(gate.work(number), size_bytes=LONG)) for number in range(3)]
    await gate.until_entered(3)
    gate.open.set()
    await asyncio.gather(*tasks)
    pool.close()


async def test_closing_cancels_what_waits(pool: WorkPool, gate: Gate) -> None:
    running, waiting = (asyncio.create_task(pool.run(gate.work(number), size_bytes=LONG)) for number in range(2))
    await gate.until_entered(1)
    pool.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    gate.open.set()
    assert await running == 0
    with pytest.raises(RuntimeError):
        await pool.run(gate.work(2), size_bytes=LONG)
