"""The store of an edge or a worker, whose calls are repeated: the owner of this hop's retries (retrying.py).

The table of methods names a policy for each method. It does not matter whether the store is another process or a part
of this one: then the fault is that of its database.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Mapping
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Any, cast

from antiphon_core.errors import AntiphonError, StoreUnavailable
from antiphon_core.ids import RandomIds, new_fork_id
from antiphon_core.limits import RESTART_WAIT_S
from antiphon_core.ports.event_logs import EventBatch
from antiphon_core.ports.full_store import FullStore
from antiphon_core.ports.lineage import Fork, ForkSource
from antiphon_core.retrying import ONCE, PACING, STORE, Attempts, Pacing, Retrier, Retry, RetryPolicy
from antiphon_core.rpc.methods import STORE as METHODS
from antiphon_core.rpc.services import Row

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
        self._policies = {**policies, Retry.CALL: replace(policies[Retry.CALL], for_s=restart_wait_s)}
        for method in METHODS.methods.values():
            if not hasattr(type(self), method.row.port.__name__):
                setattr(self, method.row.port.__name__, partial(self._call, method.row))

    def __getattr__(self, name: str) -> Any:
        """A method that is not in the table: `ready`."""
        return getattr(self._store, name)

    def _call(self, row: Row, tenant: str, *arguments: Any, **options: Any) -> Awaitable[Any]:
        def attempt() -> Awaitable[Any]:
            answer: Awaitable[Any] = getattr(self._store, row.port.__name__)(tenant, *arguments, **options)
            return answer

        return self._retrier.run(attempt, self._policies[row.retry] if row.is_sent_again(tenant) else ONCE)

    async def fork(self, tenant: str, source: ForkSource, *, new_session_id: str | None = None) -> Fork:
        """Chooses the id of the new session, so that a repeated call makes no second one."""
        chosen = new_session_id or new_fork_id(_IDS, relative=source.up_to_response_id or source.session_id or "")
        fork = partial(self._store.fork, tenant, source, new_session_id=chosen)
        return await self._retrier.run(fork, self._policies[Retry.CALL])

    async def read_events(
        self, tenant: str, response_id: str, *, after: int | None = None, follow: bool = False
    ) -> AsyncGenerator[EventBatch, None]:
        """Repeats the call until its first event. Its readers continue it behind their last one (log_follower.py)."""
        attempts, has_begun = Attempts(self._retrier, self._policies[Retry.CALL]), False
        while True:
            try:
                stream = self._store.read_events(tenant, response_id, after=after, follow=follow)
                async with aclosing(stream) as batches:
                    async for batch in batches:
                        if not has_begun:
                            has_begun = True
                            attempts.answered()
                        yield batch
                return
            except AntiphonError as fault:
                if has_begun or not await attempts.paused_after(fault):
                    raise
