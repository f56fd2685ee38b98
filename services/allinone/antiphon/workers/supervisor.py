"""Starts the worker processes of a service, replaces those that die, and stops them.

    starting --all ready--> serving --SIGTERM, SIGINT--> draining --all ended--> the worst of their exit statuses
        \\--one fails--> WorkerFailed, once the others have ended

A worker that dies while the service runs is restarted with exponential backoff. Its connections are lost, as those of a
pod would be; the other workers go on. At the end all workers drain at the same time.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from antiphon import stop_signals
from antiphon.workers.messages import Assignment, Failed, Ready
from antiphon.workers.process import WorkerProcess, describe_ending
from antiphon_core.clock import Clock
from antiphon_core.telemetry import remedies

log = logging.getLogger(__name__)

RESTART_PAUSE_S = 0.5
RESTART_PAUSE_S_MAX = 30.0
STEADY_S = 60.0
"""The backoff starts over if a worker ran for longer than this."""


class WorkerFailed(Exception):
    """A worker could not start, while the service started. `status` is the exit status."""

    def __init__(self, failed: Failed) -> None:
        super().__init__(failed.message)
        self.status = failed.status


class Supervisor:
    """Runs `count` workers with the same assignment. Make it inside an event loop."""

    def __init__(
        self, assignment: Assignment, count: int, *, clock: Clock, restart_pause_s: float = RESTART_PAUSE_S
    ) -> None:
        self._assignment = assignment
        self._count = count
        self._clock = clock
        self._restart_pause_s = restart_pause_s
        self._workers: dict[int, WorkerProcess] = {}
        self._ready: set[int] = set()
        self._is_serving = False
        self._stopping = asyncio.Event()

    async def run(self, on_started: Callable[[Ready], None]) -> int:
        """Runs until a signal has ended all workers, and returns the greatest of their exit statuses. `on_started` is
        called once, when all are ready. WorkerFailed: a worker could not start. OSError: there is no process for it."""
        try:
            with stop_signals.handle_stop_signals(self._stop):
                async with asyncio.TaskGroup() as group:
                    kept = [group.create_task(self._keep(n, on_started)) for n in range(1, self._count + 1)]
        except* (WorkerFailed, OSError) as failures:
            raise failures.exceptions[0] from None
        return max(task.result() for task in kept)

    def _stop(self, number: signal.Signals) -> None:
        """Drains the workers. A second signal ends this process, and the kernel then kills them."""
        count = len(self._workers)
        log.info("%s: draining %d workers; a second signal ends all of them at once", number.name, count)
        self._stopping.set()
        for worker in self._workers.values():
            worker.terminate()

    async def _keep(self, number: int, on_started: Callable[[Ready], None]) -> int:
        """Runs one worker and its replacements. Returns the exit status of the last one."""
        pause_s = self._restart_pause_s
        while not self._stopping.is_set():
            began_s = self._clock.monotonic()
            status = await self._run_one(number, on_started)
            if self._stopping.is_set():
                return status
            if self._clock.monotonic() - began_s > STEADY_S:
                pause_s = self._restart_pause_s
            log.error(
                "worker %d %s; it is restarted in %g s",
                number,
                describe_ending(status),
                pause_s,
                extra=remedies.CHECK_WORKER,
            )
            await self._pause(pause_s)
            pause_s = min(2 * pause_s, RESTART_PAUSE_S_MAX)
        return 0

    async def _run_one(self, number: int, on_started: Callable[[Ready], None]) -> int:
        """Runs one worker process from its start to its end, and returns the exit status."""
        try:
            worker = await WorkerProcess.start(replace(self._assignment, number=number))
        except OSError as error:
            if not self._is_serving:
                raise
            # For example, there is no memory for a process: the other workers go on.
            log.error("worker %d cannot be started: %s", number, error, extra=remedies.CHECK_WORKER)
            return 1
        self._workers[number] = worker
        try:
            if self._stopping.is_set():
                worker.terminate()
            report = await worker.report()
            if isinstance(report, Failed):
                return await self._handle_failure(worker, report)
            log.info("worker %d is ready, as process %d", number, worker.pid)
            self._note_ready(number, report, on_started)
            return await worker.wait()
        except asyncio.CancelledError:
            worker.terminate()
            await worker.wait()
            raise
        finally:
            del self._workers[number]

    async def _handle_failure(self, worker: WorkerProcess, report: Failed) -> int:
        """Handles a worker that could not start. WorkerFailed: the service was still starting, and ends with it."""
        await worker.wait()
        if self._stopping.is_set():
            return 0  # it was terminated before it could handle signals
        if not self._is_serving:
            raise WorkerFailed(report)
        log.error("worker %d cannot start: %s", worker.number, report.message, extra=remedies.CHECK_WORKER)
        return report.status

    def _note_ready(self, number: int, report: Ready, on_started: Callable[[Ready], None]) -> None:
        self._ready.add(number)
        if not self._is_serving and len(self._ready) == self._count:
            self._is_serving = True
            on_started(report)

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
