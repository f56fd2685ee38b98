from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextvars import ContextVar

import pytest

from antiphon_core.offload import INLINE_BYTES_MAX, MEDIUM_BYTES_MAX, WorkAbandoned, WorkPool
from tests.support.waiting import until

LARGE = INLINE_BYTES_MAX + 1


class Gate:
    """Holds threads until the gate is open, and records their order."""

    def __init__(self, pool: WorkPool) -> None:
        self.open = threading.Event()
        self.entered: list[int] = []
        self.threads: set[threading.Thread] = set()
        self._pool = pool

    def work(self, number: int, *, releases_gil: bool = False) -> Callable[[], int]:
        def pass_through() -> int:
            self.entered.append(number)
            self.threads.add(threading.current_thread())
            if releases_gil:
                with self._pool.without_gil():
                    self.open.wait()
            else:
                self.open.wait()
            return number

        return pass_through

    async def until_entered(self, count: int) -> None:
        await until(lambda: len(self.entered) >= count, "the work in threads")


@pytest.fixture
async def pool() -> AsyncIterator[WorkPool]:
    made = WorkPool(threads=1)
    yield made
    made.close()


@pytest.fixture
async def wide_pool() -> AsyncIterator[WorkPool]:
    made = WorkPool(threads=3)
    yield made
    made.close()


@pytest.fixture
async def gate(pool: WorkPool) -> AsyncIterator[Gate]:
    made = Gate(pool)
    yield made
    made.open.set()


@pytest.mark.parametrize(("size_bytes", "is_here"), [(INLINE_BYTES_MAX, True), (LARGE, False)])
async def test_only_large_work_goes_to_another_thread(pool: WorkPool, size_bytes: int, is_here: bool) -> None:
    thread = await pool.run(threading.current_thread, size_bytes=size_bytes)
    assert (thread is threading.current_thread()) is is_here


async def test_the_caller_can_lower_the_size_of_large_work(pool: WorkPool) -> None:
    thread = await pool.run(threading.current_thread, size_bytes=11, inline_bytes_max=10)
    assert thread is not threading.current_thread()


async def test_work_runs_in_order_of_arrival(pool: WorkPool, gate: Gate) -> None:
    tasks = [asyncio.create_task(pool.run(gate.work(number), size_bytes=LARGE)) for number in range(5)]
    await gate.until_entered(1)
    gate.open.set()
    assert await asyncio.gather(*tasks) == [0, 1, 2, 3, 4]
    assert gate.entered == [0, 1, 2, 3, 4]
    assert len(gate.threads) == 1


async def test_medium_work_does_not_wait_behind_large_work(pool: WorkPool, gate: Gate) -> None:
    large = [asyncio.create_task(pool.run(gate.work(n), size_bytes=MEDIUM_BYTES_MAX + 1)) for n in range(3)]
    await gate.until_entered(1)
    assert await pool.run(lambda: "done", size_bytes=MEDIUM_BYTES_MAX) == "done"
    assert gate.entered == [0]
    gate.open.set()
    assert await asyncio.gather(*large) == [0, 1, 2]


async def test_work_of_a_caller_cancelled_while_it_waits_never_runs(pool: WorkPool, gate: Gate) -> None:
    first, second, third = (asyncio.create_task(pool.run(gate.work(n), size_bytes=LARGE)) for n in range(3))
    await gate.until_entered(1)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    gate.open.set()
    assert [await first, await third] == [0, 2]
    assert gate.entered == [0, 2]


@pytest.mark.parametrize("size_bytes", [0, LARGE])
async def test_an_error_of_the_work_is_raised_to_its_caller(pool: WorkPool, size_bytes: int) -> None:
    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await pool.run(fail, size_bytes=size_bytes)


async def test_work_sees_the_context_variables_of_its_caller(pool: WorkPool) -> None:
    name: ContextVar[str] = ContextVar("name")
    name.set("req_1")
    assert await pool.run(name.get, size_bytes=LARGE) == "req_1"


async def test_one_thread_at_a_time_runs_python(wide_pool: WorkPool) -> None:
    running, most = [0], [0]

    def work() -> None:
        running[0] += 1
        most[0] = max(most[0], running[0])
        time.sleep(0.02)
        running[0] -= 1

    await asyncio.gather(*(wide_pool.run(work, size_bytes=LARGE) for _ in range(6)))
    assert most == [1]


async def test_threads_run_side_by_side_where_the_gil_is_released(wide_pool: WorkPool) -> None:
    gate = Gate(wide_pool)
    tasks = [
        asyncio.create_task(wide_pool.run(gate.work(number, releases_gil=True), size_bytes=LARGE))
        for number in range(3)
    ]
    await gate.until_entered(3)
    gate.open.set()
    assert sorted(await asyncio.gather(*tasks)) == [0, 1, 2]


async def test_releasing_the_gil_outside_the_pool_changes_nothing(pool: WorkPool) -> None:
    with pool.without_gil():
        assert await pool.run(lambda: 1, size_bytes=LARGE) == 1


async def test_work_that_failed_leaves_its_turn_to_the_next(wide_pool: WorkPool) -> None:
    def fail() -> None:
        with wide_pool.without_gil():
            raise ValueError("no")

    for _ in range(4):
        with pytest.raises(ValueError, match="no"):
            await wide_pool.run(fail, size_bytes=LARGE)


async def test_closing_cancels_work_that_waits(pool: WorkPool, gate: Gate) -> None:
    running, waiting = (asyncio.create_task(pool.run(gate.work(number), size_bytes=LARGE)) for number in range(2))
    await gate.until_entered(1)
    pool.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    gate.open.set()
    assert await running == 0
    with pytest.raises(RuntimeError):
        await pool.run(gate.work(2), size_bytes=LARGE)


async def test_large_work_has_half_of_the_threads() -> None:
    pool = WorkPool(threads=4)
    gate = Gate(pool)
    try:
        sizes = {MEDIUM_BYTES_MAX: 4, MEDIUM_BYTES_MAX + 1: 2}
        for size_bytes, threads in sizes.items():
            gate.threads.clear()
            gate.entered.clear()
            gate.open.clear()
            work = [gate.work(number, releases_gil=True) for number in range(6)]
            tasks = [asyncio.create_task(pool.run(each, size_bytes=size_bytes)) for each in work]
            await gate.until_entered(threads)
            gate.open.set()
            await asyncio.gather(*tasks)
            assert len(gate.threads) == threads
    finally:
        pool.close()


async def test_abandoned_work_ends_at_its_next_check(pool: WorkPool, gate: Gate) -> None:
    ended = threading.Event()

    def work() -> None:
        gate.work(1)()
        try:
            pool.require_wanted()
        except WorkAbandoned:
            ended.set()
            raise

    leaving = asyncio.ensure_future(pool.run(work, size_bytes=LARGE))
    await gate.until_entered(1)
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    gate.open.set()
    await asyncio.to_thread(ended.wait)


async def test_work_that_is_still_wanted_passes_its_check(pool: WorkPool) -> None:
    await pool.run(pool.require_wanted, size_bytes=LARGE)
    pool.require_wanted()  # a thread outside the pool
