"""Work that outlives its caller: what was begun at the store is brought to its end, although nobody waits for it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

from antiphon_core.errors import AntiphonError

log = logging.getLogger(__name__)

T = TypeVar("T")


class Tidying:
    """Tasks of their own. `settle` before the event loop ends."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    async def finished(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`. A caller that is cancelled leaves it running."""
        return await asyncio.shield(self.start(work))

    def later(self, work: Coroutine[Any, Any, object], what: str) -> None:
        """Does it, without anybody waiting; `what` is what is logged when it fails."""

        async def do() -> None:
            try:
                await work
            except AntiphonError as error:
                log.error("%s: %s", what, error)

        self.start(do())

    async def settle(self) -> None:
        """Returns when nothing is left to do."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Begins it, and lets nobody's cancellation end it."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # whoever waited has it; nobody else has to hear of it
