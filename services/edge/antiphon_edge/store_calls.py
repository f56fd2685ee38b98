"""The calls of an edge or a worker to its store: retries, and fail-fast timeouts.

`retrying` owns the retries of this hop (retrying.py). The table of methods names a policy for each method. It does not
matter whether the store is another process or a part of this one: then the fault is that of its database.

`fail_fast`: a caller that waits for a store without a sign of life gets an error within a second.

A slow answer may be a long history, so it is waited for; but when the store answers no call, and does not report that
it is ready, callers get StoreUnavailable within a second. A write that timed out may have happened all the same. When
the store has no room, new responses are rejected before a model generates them; reads and deletes go on. How long calls
wait for a store without a connection is decided by its retries.

A running turn writes its record and its event log without these timeouts, because they must not be lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Mapping
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, cast

from antiphon_core.errors import AntiphonError, StoreUnavailable, Timeout, Unavailable
from antiphon_core.ids import RandomIds, new_fork_id
from antiphon_core.limits import RESTART_WAIT_S
from antiphon_core.ports.event_logs import EventBatch
from antiphon_core.ports.full_store import FullStore
from antiphon_core.ports.lineage import Fork, ForkSource
from antiphon_core.retrying import ONCE, PACING, STORE, Attempts, Pacing, Retrier, Retry, RetryPolicy
from antiphon_core.rpc.methods import STORE as METHODS
from antiphon_core.rpc.services import Repeat, Row

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
        if asyncio.get_running_loop().time() < self._ready_at + SLOW_S + READY_S:
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
            if _now() >= self._seen_at + SLOW_S:
                await self._require_sign_of_life(within_s=READY_S)

    async def _require_sign_of_life(self, *, within_s: float) -> None:
        if self._probe is None or self._probe.done():
            self._probe = asyncio.create_task(self._run_probe())
        await asyncio.wait([self._probe], timeout=within_s)
        if _now() < self._seen_at + SLOW_S + READY_S:
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
    method.row.port.__name__ for method in METHODS.methods.values() if method.row.fails_fast and not method.is_streaming
)


def fail_fast(store: FullStore, watch: StoreWatch) -> FullStore:
    """Wraps the store: the calls of its table that fail fast raise StoreUnavailable when the store shows no sign of
    life."""
    return cast("FullStore", _FailFast(store, watch))


class _FailFast:
    """Has the methods of a store. Those that fail fast are attributes of the instance."""

    def __init__(self, store: FullStore, watch: StoreWatch) -> None:
        self._store = store
        self._watch = watch
        for name in _FAIL_FAST:
            setattr(self, name, partial(self._call, name))

    def __getattr__(self, name: str) -> Any:
        """A method that does not fail fast."""
        return getattr(self._store, name)

    async def _call(self, name: str, *arguments: Any, **options: Any) -> Any:
        pending = asyncio.ensure_future(getattr(self._store, name)(*arguments, **options))
        try:
            await self._watch.while_it_lives(pending)
            return pending.result()
        except Timeout as error:  # the same error as from a store that refuses the connection
            raise StoreUnavailable("The store does not answer.") from error
        finally:
            pending.cancel()


def _now() -> float:
    return asyncio.get_running_loop().time()


_IDS = RandomIds()


def retrying(
    store: FullStore,
    *,
    restart_wait_s: float = RESTART_WAIT_S,
    policies: Mapping[Retry, RetryPolicy] = STORE,
    pacing: Pacing = PACING,
) -> FullStore:
    """Wraps a store. Its calls wait `restart_wait_s` for a store that is away. Wrap it once: two loops multiply."""
    return cast("FullStore", RetryingStore(store, restart_wait_s=restart_wait_s, policies=policies, pacing=pacing))


class RetryingStore:
    """Has the methods of a store. Those of the table are attributes of the instance."""

    def __init__(
        self, store: FullStore, *, restart_wait_s: float, policies: Mapping[Retry, RetryPolicy], pacing: Pacing
    ) -> None:
        self._store = store
        self._retrier = Retrier(StoreUnavailable, pacing)
        keep = policies[Retry.KEEP]
        self._policies = {
            **policies,
            Retry.CALL: replace(policies[Retry.CALL], for_s=restart_wait_s),
            # A write that must not be lost is never given up before a call that only waits for its answer.
            Retry.KEEP: replace(keep, for_s=keep.for_s + max(0.0, restart_wait_s - RESTART_WAIT_S)),
        }
        for method in METHODS.methods.values():
            if not hasattr(type(self), method.row.port.__name__):
                setattr(self, method.row.port.__name__, partial(self._call, method.row))

    def __getattr__(self, name: str) -> Any:
        """A method that is not in the table: `ready`."""
        return getattr(self._store, name)

    def _call(self, row: Row, tenant: str, *arguments: Any, **options: Any) -> Awaitable[Any]:
        def attempt() -> Awaitable[Any]:  # looks the method up again: a wrapper may have lost its store since
            answer: Awaitable[Any] = getattr(self._store, row.port.__name__)(tenant, *arguments, **options)
            return answer

        is_sent_again = row.repeat is Repeat.ALWAYS or row.is_sent_again(tenant)
        return self._retrier.run(attempt, self._policies[row.retry] if is_sent_again else ONCE)

    async def fork(self, tenant: str, source: ForkSource, *, new_session_id: str | None = None) -> Fork:
        """Chooses the id of the new session, so that a repeated call makes no second one."""
        chosen = new_session_id or new_fork_id(_IDS, relative=source.up_to_response_id or source.session_id or "")
        fork = partial(self._store.fork, tenant, source, new_session_id=chosen)
        return await self._retrier.run(fork, self._policies[Retry.CALL])

    async def read_events(
        self, tenant: str, response_id: str, *, after: int | None = None, follow: bool = False
    ) -> AsyncGenerator[EventBatch, None]:
        """Repeats the call until its first event. Its readers continue it behind their last one (event_logs.py)."""
        attempts, has_begun = Attempts(self._retrier, self._policies[Retry.CALL]), False
        while True:
            try:
                stream = self._store.read_events(tenant, response_id, after=after, follow=follow)
                async with aclosing(stream) as batches:
                    async for batch in batches:
                        if not has_begun:
                            has_begun = True
                            attempts.note_answer()
                        yield batch
                return
            except AntiphonError as fault:
                if has_begun or not await attempts.paused_after(fault):
                    raise
