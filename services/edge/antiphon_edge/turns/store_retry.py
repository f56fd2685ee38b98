"""How long the edge and its workers try again when the store, or a model's server, cannot be reached.

Two different things stand here. `with_retries` repeats a write that must not be lost; it must be safe to repeat.
`StoreWatch` does the opposite for callers who wait: a slow answer may be a long history and is worth waiting for, but a
store that answers nobody, and does not even report that it is ready, is told as unavailable within a second. One that
has no room for a new response is told so before a model generates it, and goes on with reads and deletes. For how long
a store without a connection is waited for, its client decides (antiphon_core/rpc/absence.py).
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
    quarter at random, so that the callers of a store that comes back do not all return at once. No attempt begins
    later than `for_s` after the first."""

    for_s: float
    first_s: float = 0.1
    most_s: float = 1.6

    def pauses_s(self) -> Iterator[float]:
        """The pauses, without an end."""
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
    """The result of `write`, in as many attempts as the policy allows while it raises one of `passing`."""
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
"""Together less than a second: so soon a caller hears that the store is gone."""
NO_ROOM = "The store has no room for new responses. Stored ones can be read and deleted."


class Ready(Protocol):
    """The part of a store that a watch asks."""

    async def ready(self) -> None:
        """Returns when the store can be used and has room. Unavailable."""


class StoreWatch:
    """Watches over one store. One instance serves all of a process."""

    def __init__(self, store: Ready) -> None:
        self._store = store
        self._seen_at = float("-inf")  # when the store last answered anybody
        self._ready_at = float("-inf")  # when it last said that it is ready: alive, and with room for more
        self._look: asyncio.Task[None] | None = None
        self._fault: Unavailable | None = None  # by the last look

    async def require_room(self) -> None:
        """Returns when the store was ready for a new response a moment ago, is ready, or is being restarted.
        StoreUnavailable: it has a connection and did not answer within a second, or it is full."""
        if _is_recent(self._ready_at, within_s=SLOW_S + READY_S):
            return
        await self._require_sign_of_life(within_s=SLOW_S + READY_S)
        if self._fault is not None and self._fault.is_full:
            raise StoreUnavailable(NO_ROOM, full=True) from self._fault

    async def while_it_lives(self, call: asyncio.Future[Any]) -> None:
        """Returns when the call is done, well or badly. StoreUnavailable: the store has a connection and shows no sign
        of life; the call goes on, and is its caller's to cancel."""
        while True:
            await asyncio.wait([call], timeout=SLOW_S)
            if call.done():
                if call.cancelled() or not isinstance(call.exception(), (Unavailable, Timeout)):
                    self._seen_at = _now()
                return
            if not _is_recent(self._seen_at, within_s=SLOW_S):
                await self._require_sign_of_life(within_s=READY_S)

    async def _require_sign_of_life(self, *, within_s: float) -> None:
        if self._look is None or self._look.done():
            self._look = asyncio.create_task(self._look_at_it())
        await asyncio.wait([self._look], timeout=within_s)
        is_away = self._fault is not None and self._fault.is_away
        if not _is_recent(self._seen_at, within_s=SLOW_S + READY_S) and not is_away:
            raise StoreUnavailable("The store does not answer.")

    async def _look_at_it(self) -> None:
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
