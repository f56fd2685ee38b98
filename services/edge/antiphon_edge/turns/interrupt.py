"""Cancels awaited work with an error, from outside the task that awaits it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Interrupt:
    """Ends one piece of awaited work with an error. The first error counts; work that begins later fails at once.

    A lease keeper that finds its lease lost, an event log that cannot be written any more and a cancelled job all end
    a turn this way. It needs no task of its own: the work runs in an `asyncio.timeout` without a deadline, and
    `break_off` sets the deadline to now.
    """

    def __init__(self) -> None:
        self.error: Exception | None = None
        self._scope: asyncio.Timeout | None = None

    def break_off(self, error: Exception) -> None:
        """Cancels the awaited work; `run` raises `error`."""
        if self.error is None:
            self.error = error
            if self._scope is not None:
                self._scope.reschedule(asyncio.get_running_loop().time())

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Awaits `work` and returns its result. Raises the error of `break_off` if that is called before the end."""
        if self.error is not None:
            work.close()
            raise self.error
        try:
            async with asyncio.timeout(None) as self._scope:
                return await work
        except TimeoutError:
            if self.error is not None:
                raise self.error from None
            raise
        finally:
            self._scope = None
