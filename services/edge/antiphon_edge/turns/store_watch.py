"""Fail-fast timeouts: a caller that waits for a store without a sign of life gets an error within a second.

A slow answer may be a long history, so it is waited for; but when the store answers no call, and does not report that
it is ready, callers get StoreUnavailable within a second. A write that timed out may have happened all the same. When
the store has no room, new responses are rejected before a model generates them; reads and deletes go on. How long calls
wait for a store without a connection is decided by its retries (retrying_store.py).

A running turn writes its record and its event log without these timeouts, because they must not be lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Protocol, cast

from antiphon_core.errors import AntiphonError, StoreUnavailable, Timeout, Unavailable
from antiphon_core.ports.full_store import FullStore
from antiphon_core.rpc.methods import STORE

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


_FAIL_FAST = frozenset(
    method.row.port.__name__ for method in STORE.methods.values() if method.row.fails_fast and not method.streams
)


def fail_fast(store: FullStore, watch: StoreWatch) -> FullStore:
    """Wraps the store: the calls of its table that fail fast raise StoreUnavailable when the store shows no sign of
    life."""
    return cast("FullStore", _FailFast(store, watch))


class _FailFast:
    def __init__(self, store: FullStore, watch: StoreWatch) -> None:
        self._store = store
        self._watch = watch

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._store, name)
        return partial(self._call, call) if name in _FAIL_FAST else call

    async def _call(self, call: Callable[..., Awaitable[Any]], *arguments: Any, **options: Any) -> Any:
        pending = asyncio.ensure_future(call(*arguments, **options))
        try:
            await self._watch.while_it_lives(pending)
            return pending.result()
        except Timeout as error:  # the same error as from a store that refuses the connection
            raise StoreUnavailable("The store does not answer.") from error
        finally:
            pending.cancel()


def _is_recent(at_s: float, *, within_s: float) -> bool:
    return _now() - at_s < within_s


def _now() -> float:
    return asyncio.get_running_loop().time()
