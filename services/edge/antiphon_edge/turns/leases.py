"""Keeping the lease of a session for as long as a turn runs in it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from antiphon_core.errors import AntiphonError, StaleFence
from antiphon_core.limits import LEASE_TTL_MS_DEFAULT
from antiphon_core.ports.store import Lease, ResponseStore
from antiphon_edge.turns import cancellation

log = logging.getLogger(__name__)

RENEW_EVERY_S = LEASE_TTL_MS_DEFAULT / 1000 / 3
RETRY_EVERY_S = 1.0
"""After an error of the store: there are two more periods in which it can come back."""


@asynccontextmanager
async def kept(
    store: ResponseStore,
    tenant: str,
    lease: Lease | None,
    *,
    every_s: float = RENEW_EVERY_S,
    retry_s: float = RETRY_EVERY_S,
) -> AsyncIterator[None]:
    """Renews a lease, if there is one, until the block is left. A lease that is lost all the same is noticed by the
    store: it refuses the commit."""
    if lease is None:
        yield
        return
    keeper = asyncio.create_task(
        _renew(store, tenant, lease, every_s, retry_s), name=f"lease of {lease.fence.session_id}"
    )
    try:
        yield
    finally:
        keeper.cancel()
        await asyncio.wait([keeper])


async def _renew(store: ResponseStore, tenant: str, lease: Lease, every_s: float, retry_s: float) -> None:
    pause_s = every_s
    while True:
        await asyncio.sleep(pause_s)
        try:
            await store.renew_session(tenant, lease.fence)
            pause_s = every_s
        except StaleFence as error:
            log.warning("the lease of %s is lost: %s", lease.fence.session_id, error.message)
            return
        except AntiphonError as error:
            log.warning("the lease of %s could not be renewed: %s", lease.fence.session_id, error.message)
            pause_s = retry_s
        cancellation.heed()
