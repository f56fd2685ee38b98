"""Timeouts of a stream of tokens: how long a server may take for the first token, and how long between two.

A stream has one timer of the event loop. When the timer fires, it checks the time of the last token, so that a token
does not reset a timer. While the flow is paused nothing is read and there is no timeout; it starts again when the flow
is open.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from antiphon_core.errors import EngineTimeout
from antiphon_core.flow import Flow

SLEPT_S = 1.0
"""Seconds of delay of the timer that mean that this process was suspended: the timeout restarts then."""


@dataclass(frozen=True, slots=True)
class TokenTimeouts:
    """The timeouts for the first token and between two tokens, in seconds. `server` names the server in the error."""

    server: str
    first_s: float
    next_s: float


@asynccontextmanager
async def time_tokens(timeouts: TokenTimeouts, flow: Flow) -> AsyncIterator[TokenTimer]:
    """Cancels its block when no token came in time, or when the time of `TokenTimer.end_within` is over.

    Raises:
        EngineTimeout: no token came in time. A block that `end_within` ended raises nothing.
    """
    scope = asyncio.timeout(None)
    timer = TokenTimer(timeouts, scope)
    try:
        async with scope:
            with flow.listening(pause=timer.pause, resume=timer.resume):
                yield timer
    except TimeoutError as error:
        if not scope.expired():
            raise
        if not timer.has_ended:
            raise timer.error() from error
    finally:
        timer.pause()


class TokenTimer:
    """The timer of one stream."""

    def __init__(self, timeouts: TokenTimeouts, scope: asyncio.Timeout) -> None:
        self.has_ended = False
        self._timeouts = timeouts
        self._scope = scope
        self._time = asyncio.get_running_loop().time
        self._limit_s = timeouts.first_s
        self._has_begun = False
        self._last = 0.0
        self._due = 0.0
        self._handle: asyncio.TimerHandle | None = None
        self.resume()

    def token_came(self) -> None:
        """Restarts the timeout."""
        self._last = self._time()
        if not self._has_begun:
            self._has_begun = True
            self._limit_s = self._timeouts.next_s
            if self._handle is not None:
                self.resume()

    def stop(self) -> None:
        """Ends the timeouts: the last token came."""
        self.has_ended = True
        self.pause()

    def end_within(self, seconds: float) -> None:
        """Ends the block after this time at the latest. The token timeouts no longer apply."""
        self.stop()
        self._expire(seconds)

    def pause(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def resume(self) -> None:
        self.pause()
        if not self.has_ended:
            self._last = self._time()
            self._arm(self._limit_s)

    def error(self) -> EngineTimeout:
        which = "next" if self._has_begun else "first"
        return EngineTimeout(f"{self._timeouts.server} sent no {which} token within {self._limit_s:g} s.")

    def _arm(self, seconds: float) -> None:
        self._due = self._time() + seconds
        self._handle = asyncio.get_running_loop().call_at(self._due, self._check)

    def _check(self) -> None:
        if self._time() - self._due > SLEPT_S:  # this process was suspended, which is no fault of the server
            self.resume()
            return
        left_s = self._last + self._limit_s - self._time()
        if left_s > 0:
            self._arm(left_s)
        else:
            self._expire(0)

    def _expire(self, seconds: float) -> None:
        if not self._scope.expired():
            self._scope.reschedule(self._time() + seconds)
