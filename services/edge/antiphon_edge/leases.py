"""Keeping the lease of a session for as long as a turn runs in it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from antiphon_core.errors import StaleFence, Timeout, Unavailable
from antiphon_core.limits import LEASE_TTL_MS_DEFAULT
from antiphon_core.ports.store import Lease, ResponseStore

log = logging.getLogger(__name__)

RENEW_EVERY_S = LEASE_TTL_MS_DEFAULT / 1000 / 3


@asynccontextmanager
async def kept(store: ResponseStore, tenant: str, lease: Lease | None) -> AsyncIterator[None]:
    """Renews a lease, if there is one, until the block is left. A lease that is lost all the same is noticed by the
    store: it refuses the commit."""
    if lease is None:
        yield
        return
    keeper = asyncio.create_task(_renew(store, tenant, lease), name=f"lease of {lease.fence.session_id}")
    try:
        yield
    finally:
        keeper.cancel()
        with suppress(asyncio.CancelledError):
            await keeper


async def _renew(store: ResponseStore, tenant: str, lease: Lease) -> None:
    while True:
        await asyncio.sleep(RENEW_EVERY_S)
        try:
            await store.renew_session(tenant, lease.fence)
        except StaleFence as error:
            log.warning("the lease of %s is lost: %s", lease.fence.session_id, error.message)
            return
        except (Unavailable, Timeout) as error:
            log.warning("the lease of %s could not be renewed: %s", lease.fence.session_id, error.message)
