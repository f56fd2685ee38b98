"""Renews leases while the work under them runs.

Each lease that an edge or a worker holds has a task that renews it: leases of sessions, of the jobs of keyed turns and
of background jobs. All leases of one pace are renewed at the same moments, so that renewals share a transaction of the
store. A failed renewal is retried soon, because the lease outlives a short outage. Only the store decides that a lease
is lost (StaleFence), never the clock.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from antiphon_core.errors import AntiphonError, StaleFence
from antiphon_core.telemetry import remedies

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RenewalPace:
    """Seconds between two renewals, and from a failed renewal to the next attempt."""

    every_s: float
    retry_s: float


@asynccontextmanager
async def kept(
    name: str,
    renew: Callable[[], Awaitable[object]],
    pace: RenewalPace,
    on_lost: Callable[[StaleFence], None] = lambda _error: None,
) -> AsyncIterator[None]:
    """Calls `renew` at the given pace until the block is left.

    When `renew` raises StaleFence, `on_lost` is called and the lease is not renewed any more. Other errors are logged,
    and the renewal is retried after `pace.retry_s`. `name` names the lease in the log.
    """
    keeper = asyncio.create_task(_renew(name, renew, pace, on_lost), name=f"lease of {name}")
    try:
        yield
    finally:
        keeper.cancel()
        await asyncio.wait([keeper])


async def _renew(
    name: str, renew: Callable[[], Awaitable[object]], pace: RenewalPace, on_lost: Callable[[StaleFence], None]
) -> None:
    loop = asyncio.get_running_loop()
    pause_s = _until_next_s(loop.time(), pace.every_s)
    while True:
        await asyncio.sleep(pause_s)
        try:
            await renew()
            pause_s = _until_next_s(loop.time(), pace.every_s)
        except StaleFence as error:
            log.warning("the lease of %s is lost: %s", name, error.message)
            on_lost(error)
            return
        except AntiphonError as error:
            log.warning("the lease of %s could not be renewed: %s", name, error.message)
            pause_s = pace.retry_s
        except Exception:
            log.exception("the lease of %s could not be renewed", name, extra=remedies.REPORT)
            pause_s = pace.retry_s


def _until_next_s(now_s: float, every_s: float) -> float:
    """Seconds until the next multiple of `every_s` that is more than a tenth of `every_s` away."""
    if not every_s:
        return 0
    pause_s = every_s - now_s % every_s
    return pause_s if pause_s > every_s / 10 else pause_s + every_s
