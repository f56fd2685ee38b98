from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable

import pytest

from antiphon.workers.messages import Assignment, Failed, Ready
from antiphon.workers.process import WorkerProcess
from antiphon.workers.supervisor import Supervisor, WorkerFailed
from antiphon_core.clock import ManualClock
from antiphon_core.sealing_keys import SealingKeys
from tests.support.local_settings import settings
from tests.support.waiting import until

ASSIGNMENT = Assignment(0, ("edge",), settings(), SealingKeys.ephemeral())


class Worker:
    """A fake worker process for the supervisor."""

    def __init__(self, number: int, pid: int) -> None:
        self.number = number
        self.pid = pid
        self.terminated = 0
        self.ends_when_told = True
        self._report: asyncio.Future[Ready | Failed] = asyncio.get_running_loop().create_future()
        self._status: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def is_ready(self) -> None:
        self._report.set_result(Ready("edge  http://h:1"))

    def fails(self, status: int, message: str) -> None:
        self._report.set_result(Failed(message, status))
        self.ends(status)

    def ends(self, status: int) -> None:
        if not self._status.done():
            self._status.set_result(status)

    def terminate(self) -> None:
        self.terminated += 1
        if self.ends_when_told:
            self.ends(0)
            if not self._report.done():
                self._report.set_result(Failed("killed by signal 15", 143))

    async def report(self) -> Ready | Failed:
        return await self._report

    async def wait(self) -> int:
        return await asyncio.shield(self._status)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Worker]:
    """The started processes, in order."""
    found: list[Worker] = []

    async def start(assignment: Assignment) -> Worker:
        found.append(Worker(assignment.number, 1_000 + len(found)))
        return found[-1]

    monkeypatch.setattr(WorkerProcess, "start", start)
    return found


def terminate() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


class Running:
    """A running supervisor of two workers. `told` has its reports of readiness."""

    def __init__(self, clock: ManualClock | None = None) -> None:
        self.told: list[Ready] = []
        self.clock = clock or ManualClock()
        supervisor = Supervisor(ASSIGNMENT, 2, clock=self.clock, restart_pause_s=0)
        self.task = asyncio.create_task(supervisor.run(self.told.append))

    async def all_ready(self, started: list[Worker]) -> None:
        await until(lambda: len(started) == 2, "two workers")
        for worker in started:
            worker.is_ready()
        await until(lambda: bool(self.told), "all are ready")


async def test_readiness_is_reported_once_when_all_workers_are_ready(started: list[Worker]) -> None:
    running = Running()
    await until(lambda: len(started) == 2, "two workers")
    assert [worker.number for worker in started] == [1, 2]
    started[1].is_ready()
    await asyncio.sleep(0)
    assert running.told == []
    started[0].is_ready()
    await until(lambda: bool(running.told), "all are ready")
    assert running.told == [Ready("edge  http://h:1")]
    terminate()
    assert await running.task == 0
    assert running.told == [Ready("edge  http://h:1")]


async def test_signal_reaches_all_workers_and_the_worst_status_is_returned(started: list[Worker]) -> None:
    running = Running()
    await running.all_ready(started)
    for worker in started:
        worker.ends_when_told = False
    terminate()
    await until(lambda: [worker.terminated for worker in started] == [1, 1], "both are told")
    started[0].ends(0)
    started[1].ends(143)
    assert await running.task == 143


async def test_a_worker_that_cannot_start_ends_the_others_and_the_service(started: list[Worker]) -> None:
    running = Running()
    await until(lambda: len(started) == 2, "two workers")
    started[0].is_ready()
    started[1].fails(2, "no such file")
    with pytest.raises(WorkerFailed, match="no such file") as caught:
        await running.task
    assert caught.value.status == 2
    assert started[0].terminated == 1
    assert running.told == []


async def test_a_process_that_the_system_does_not_start_ends_the_service_with_its_error(
    started: list[Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    start = WorkerProcess.start

    async def start_one(assignment: Assignment) -> WorkerProcess:
        if assignment.number == 2:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        return await start(assignment)

    monkeypatch.setattr(WorkerProcess, "start", start_one)
    with pytest.raises(BlockingIOError, match="Resource temporarily unavailable"):
        await Running().task
    assert [worker.terminated for worker in started] == [1]


async def test_a_signal_during_the_start_ends_with_status_0(started: list[Worker]) -> None:
    running = Running()
    await until(lambda: len(started) == 2, "two workers")
    terminate()
    assert await running.task == 0
    assert running.told == []


async def test_a_worker_that_dies_is_replaced(started: list[Worker], caplog: pytest.LogCaptureFixture) -> None:
    running = Running()
    await running.all_ready(started)
    started[1].ends(137)
    await until(lambda: len(started) == 3, "a successor")
    assert started[2].number == 2
    assert "worker 2 was killed by signal 9; it is restarted in 0 s" in caplog.text
    started[2].is_ready()
    assert len(running.told) == 1
    terminate()
    assert await running.task == 0
    assert [worker.terminated for worker in started] == [1, 0, 1]


async def test_a_replacement_that_cannot_start_is_retried(
    started: list[Worker], caplog: pytest.LogCaptureFixture
) -> None:
    running = Running()
    await running.all_ready(started)
    started[1].ends(1)
    await until(lambda: len(started) == 3, "a successor")
    started[2].fails(2, "the file is broken")
    await until(lambda: len(started) == 4, "another successor")
    assert "worker 2 cannot start: the file is broken" in caplog.text
    terminate()
    assert await running.task == 0


async def test_restart_backoff_doubles_until_a_worker_runs_for_a_minute(
    started: list[Worker], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pauses: list[float] = []

    async def pause(_self: Supervisor, seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(Supervisor, "_pause", pause)
    caplog.set_level(logging.CRITICAL)
    clock, told = ManualClock(), list[Ready]()
    task = asyncio.create_task(Supervisor(ASSIGNMENT, 1, clock=clock).run(told.append))
    for number, ran_s in enumerate([1, 1, 1, 61, 1]):
        await until(lambda number=number: len(started) == number + 1, "a worker")  # type: ignore[misc]
        started[-1].is_ready()
        await _ready(lambda: bool(told))
        clock.advance(ran_s)
        started[-1].ends(1)
    await until(lambda: len(started) == 6, "the last successor")
    assert pauses == [0.5, 1.0, 2.0, 0.5, 1.0]
    terminate()
    assert await task == 0


async def _ready(holds: Callable[[], bool]) -> None:
    await until(holds, "ready")
    await asyncio.sleep(0)
