"""How long one waits for a store that does not answer: a caller, and a finished answer.

A slow answer may be a long history, or many callers: that is worth waiting for. So a call that takes long is no error
by itself; it is one when the store answers nobody, and does not even say that it is ready. What a model has said is
worth more than that: it is not given up before a restart of the store would be over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from antiphon_core.errors import AntiphonError, StoreUnavailable, Timeout, Unavailable

SLOW_S = 0.4
READY_S = 0.4
"""Together less than a second: so soon a caller hears that the store is gone."""
AWAY_S = 10.0
"""How long what must not be lost waits for the store; an attempt that has begun by then may take longer."""
PAUSE_MIN_S = 0.1
PAUSE_MAX_S = 1.6

T = TypeVar("T")


class Ready(Protocol):
    async def ready(self) -> None: ...


class StorePatience:
    """Watches over one store. One instance serves all of a process."""

    def __init__(self, store: Ready) -> None:
        self._store = store
        self._seen_at = float("-inf")  # when the store last answered anybody
        self._look: asyncio.Task[None] | None = None

    async def while_it_lives(self, call: asyncio.Future[Any]) -> None:
        """Returns when the call is done, well or badly. StoreUnavailable: the store shows no sign of life; the call
        goes on, and is its caller's to cancel."""
        while True:
            await asyncio.wait([call], timeout=SLOW_S)
            if call.done():
                self._seen_at = _now()
                return
            if not self._was_seen():
                await self._require_sign_of_life()

    async def _require_sign_of_life(self) -> None:
        if self._look is None or self._look.done():
            self._look = asyncio.create_task(self._look_at_it())
        await asyncio.wait([self._look], timeout=READY_S)
        if not self._was_seen():
            raise StoreUnavailable("The store does not answer.")

    async def _look_at_it(self) -> None:
        with suppress(AntiphonError, TimeoutError):
            async with asyncio.timeout(SLOW_S + READY_S):
                await self._store.ready()
            self._seen_at = _now()

    def _was_seen(self) -> bool:
        return _now() - self._seen_at < SLOW_S + READY_S


async def asked_again(write: Callable[[], Awaitable[T]]) -> T:
    """What `write` comes to, in as many attempts as it takes while the store is away. It must be safe to repeat."""
    until, pause_s = _now() + AWAY_S, PAUSE_MIN_S
    while True:
        try:
            return await write()
        except (Unavailable, Timeout):
            if _now() + pause_s > until:
                raise
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, PAUSE_MAX_S)


def _now() -> float:
    return asyncio.get_running_loop().time()
