"""Cleanup: work at the store that must finish even if its caller is cancelled."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

from antiphon_core.errors import AntiphonError
from antiphon_core.telemetry import remedies

log = logging.getLogger(__name__)

ATTEMPT_S = 0.3
"""How long `attempt` waits for its work."""

T = TypeVar("T")


class Cleanup:
    """Runs coroutines in tasks of their own. Await `settle` before the event loop ends."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    async def finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs `work` and returns its result. If the caller is cancelled, the work goes on, and its failure is
        logged."""
        task = self.start(work)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(_log_failure)
            raise

    async def attempt(self, work: Coroutine[Any, Any, object], failure: str) -> None:
        """Schedules `work` and waits for it, ATTEMPT_S at most, so that a frozen store does not block the caller."""
        await asyncio.wait([self.schedule(work, failure)], timeout=ATTEMPT_S)

    def schedule(self, work: Coroutine[Any, Any, object], failure: str) -> asyncio.Task[None]:
        """Runs `work` in the background. If the work fails, `failure` is logged with the reason."""

        async def run() -> None:
            try:
                await work
            except AntiphonError as error:
                log.error("%s: %s", failure, error, extra=remedies.CHECK_STORE)
            except Exception:
                log.exception("%s", failure, extra=remedies.REPORT)

        return self.start(run())

    async def settle(self) -> None:
        """Waits until all work is done."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Starts `work` in a task that `settle` waits for. A caller must shield the task to await it."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # marks the error as retrieved: asyncio would log it again otherwise


def _log_failure(task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and task.exception() is not None:
        log.error("work that outlived its caller failed", exc_info=task.exception(), extra=remedies.REPORT)
