"""Retries of calls to the store and to engines, and fail-fast timeouts for a store that does not answer.

`with_retries` retries a write that must not be lost, and that is safe to repeat. `StoreWatch` does the opposite for
callers that wait. A slow answer may be a long history, so it is waited for; but when the store answers no call, and
does not report that it is ready, callers get StoreUnavailable within a second. When the store has no room, new
responses are rejected before a model generates them; reads and deletes go on. How long calls wait for a store without
a connection is decided by the store's client (antiphon_core/rpc/absence.py).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from antiphon_core.errors import AntiphonError, StoreUnavailable, Timeout, Unavailable

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Exponential backoff with jitter: pauses from `first_s` to `most_s`, each twice the one before, less up to a
    quarter at random, so that the callers of a store that comes back do not all call at once. No attempt begins
    later than `for_s` after the first."""

    for_s: float
    first_s: float = 0.1
    most_s: float = 1.6

    def pauses_s(self) -> Iterator[float]:
        """Yields the pauses, without an end."""
        pause_s = self.first_s
        while True:
            yield pause_s * random.uniform(0.75, 1.0)  # noqa: S311 - not a secret
            pause_s = min(2 * pause_s, self.most_s)


async def with_retries(
    write: Callable[[], Awaitable[T]],
    policy: RetryPolicy,
    *,
    passing: tuple[type[Exception], ...] = (Unavailable, Timeout),
) -> T:
    """Calls `write` and returns its result. Retries as `policy` allows when `write` raises one of `passing`."""
    until_s = _now() + policy.for_s
    for pause_s in policy.pauses_s():
        try:
            return await write()
        except passing:
            if _now() + pause_s > until_s:
                raise
        await asyncio.sleep(pause_s)
    raise AssertionError("pauses have no end")


SLOW_S = 0.4
READY_S = 0.4
"""Their sum, less than a second, is the time after which a caller gets StoreUnavailable."""
NO_ROOM = "The store has no room for new responses. Stored ones can be read and deleted."


class Ready(Protocol):
    """The part of a store that StoreWatch calls."""

    async def ready(self) -> None:
        """Returns if the store can be used and has room. Raises Unavailable otherwise."""


class StoreWatch:
    """Detects that a store does not answer, or is full. One instance serves all of a process."""

    def __init__(self, store: Ready) -> None:
        self._store = store
        self._seen_at = float("-inf")  # when the store last answered any call
        self._ready_at = float("-inf")  # when it last reported that it is alive and has room
        self._probe: asyncio.Task[None] | None = None
        self._fault: Unavailable | None = None  # of the last probe

    async def require_room(self) -> None:
        """Returns if the store has room for a new response, or has no connection, as during a restart.
        StoreUnavailable: the store is connected and did not answer within a second, is full, or cannot be used for the
        reason that it reports."""
        if _is_recent(self._ready_at, within_s=SLOW_S + READY_S):
            return
        await self._require_sign_of_life(within_s=SLOW_S + READY_S)
        if self._fault is not None and self._fault.is_full:
            raise StoreUnavailable(NO_ROOM, full=True) from self._fault

    async def while_it_lives(self, call: asyncio.Future[Any]) -> None:
        """Returns when the call has a result or an error. StoreUnavailable: the store is connected and shows no sign of
        life. The call goes on: the caller cancels it."""
        while True:
            await asyncio.wait([call], timeout=SLOW_S)
            if call.done():
                if call.cancelled() or not isinstance(call.exception(), (Unavailable, Timeout)):
                    self._seen_at = _now()
                return
            if not _is_recent(self._seen_at, within_s=SLOW_S):
                await self._require_sign_of_life(within_s=READY_S)

    async def _require_sign_of_life(self, *, within_s: float) -> None:
        if self._probe is None or self._probe.done():
            self._probe = asyncio.create_task(self._run_probe())
        await asyncio.wait([self._probe], timeout=within_s)
        if _is_recent(self._seen_at, within_s=SLOW_S + READY_S):
            return
        if self._fault is None:
            raise StoreUnavailable("The store does not answer.")
        if not self._fault.is_away:
            raise StoreUnavailable(self._fault.message) from self._fault

    async def _run_probe(self) -> None:
        self._fault = None
        try:
            async with asyncio.timeout(SLOW_S + READY_S):
                await self._store.ready()
            self._seen_at = self._ready_at = _now()
        except Unavailable as error:
            self._fault = error
            if error.is_full:
                self._seen_at = _now()
        except (AntiphonError, TimeoutError):
            pass


def _is_recent(at_s: float, *, within_s: float) -> bool:
    return _now() - at_s < within_s


def _now() -> float:
    return asyncio.get_running_loop().time()
