"""Ends a stream whose caller is not admitted any more, such as after its token was revoked.

A check runs once in `interval_s`, also while the stream is silent. It does not interrupt the write of an answer, which
is gRPC's: the error is raised behind it. No answer is passed on after a check has failed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any

CHECK_INTERVAL_S = 1.0


class CheckedStream:
    """The answers of one stream. Use inside one task."""

    def __init__(
        self, answers: AsyncGenerator[Any, None], check: Callable[[], object], *, interval_s: float = CHECK_INTERVAL_S
    ) -> None:
        """`check` raises the error with which the stream ends."""
        self._answers = answers
        self._check = check
        self._interval_s = interval_s
        self._error: Exception | None = None
        self._scope: asyncio.Timeout | None = None  # of the wait for the next answer
        self._loop = asyncio.get_running_loop()

    async def read(self) -> AsyncGenerator[Any, None]:
        """Yields the answers, and raises the error of the check."""
        self._arm()
        try:
            while True:
                try:
                    answer = await self._next()
                except StopAsyncIteration:
                    return
                self._require_admitted()
                yield answer
        finally:
            self._timer.cancel()
            await self._answers.aclose()

    async def _next(self) -> Any:
        self._require_admitted()
        try:
            async with asyncio.timeout(None) as self._scope:
                return await anext(self._answers)
        except TimeoutError:
            self._require_admitted()
            raise
        finally:
            self._scope = None

    def _require_admitted(self) -> None:
        if self._error is not None:
            raise self._error from None

    def _arm(self) -> None:
        self._timer = self._loop.call_later(self._interval_s, self._look)

    def _look(self) -> None:
        try:
            self._check()
        except Exception as error:  # noqa: BLE001 - raised again by `_next`
            self._error = error
            if self._scope is not None:
                self._scope.reschedule(self._loop.time())
        else:
            self._arm()
