"""Keeping the lease of a session for as long as a turn runs in it, and no longer running than it is kept.

A store that cannot be reached is asked again: the lease outlives that. Once the store says that the lease is lost,
nothing that is generated can be committed any more, so the model is stopped at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import TypeVar

from antiphon_core.errors import AntiphonError, SessionLost, StaleFence
from antiphon_core.limits import LEASE_TTL_MS_DEFAULT
from antiphon_core.ports.store import Lease, ResponseStore

log = logging.getLogger(__name__)

RENEW_EVERY_S = LEASE_TTL_MS_DEFAULT / 1000 / 3
RETRY_EVERY_S = 1.0
"""After an error of the store: there are two more periods in which it can come back."""

T = TypeVar("T")


class KeptLease:
    """A lease while it is renewed, or none."""

    def __init__(self, lease: Lease | None) -> None:
        self._lease = lease
        self._lost: SessionLost | None = None
        self._waiting: asyncio.Timeout | None = None

    def while_kept(self, stream: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
        """What comes from a stream. SessionLost: the lease is lost; what was waited for is cancelled."""
        return stream if self._lease is None else self._guarded(stream)

    async def _guarded(self, stream: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
        async with aclosing(stream):
            while True:
                try:
                    each = await self._next(stream)
                except StopAsyncIteration:
                    return
                yield each

    async def _next(self, stream: AsyncGenerator[T, None]) -> T:
        """A timeout without an end costs no task; `lose` sets it."""
        try:
            async with asyncio.timeout(None) as self._waiting:
                self._require()
                return await anext(stream)
        except TimeoutError:
            self._require()
            raise
        finally:
            self._waiting = None

    def lose(self, error: SessionLost) -> None:
        self._lost = error
        if self._waiting is not None:
            self._waiting.reschedule(asyncio.get_running_loop().time())

    def _require(self) -> None:
        if self._lost is not None:
            raise self._lost


@asynccontextmanager
async def kept(
    store: ResponseStore,
    tenant: str,
    lease: Lease | None,
    *,
    every_s: float | None = None,
    retry_s: float | None = None,
) -> AsyncIterator[KeptLease]:
    """Renews a lease, if there is one, until the block is left."""
    held = KeptLease(lease)
    if lease is None:
        yield held
        return
    pauses_s = (RENEW_EVERY_S if every_s is None else every_s, RETRY_EVERY_S if retry_s is None else retry_s)
    keeper = asyncio.create_task(
        _renew(store, tenant, lease, held, *pauses_s), name=f"lease of {lease.fence.session_id}"
    )
    try:
        yield held
    finally:
        keeper.cancel()
        await asyncio.wait([keeper])


async def _renew(
    store: ResponseStore, tenant: str, lease: Lease, held: KeptLease, every_s: float, retry_s: float
) -> None:
    pause_s = every_s
    while True:
        await asyncio.sleep(pause_s)
        try:
            await store.renew_session(tenant, lease.fence)
            pause_s = every_s
        except StaleFence as error:
            log.warning("the lease of %s is lost: %s", lease.fence.session_id, error.message)
            held.lose(SessionLost.of(lease.fence.session_id))
            return
        except AntiphonError as error:
            log.warning("the lease of %s could not be renewed: %s", lease.fence.session_id, error.message)
            pause_s = retry_s
