"""Retention on the Redis engine: what is over is taken out of each tenant's `:ends`, one script after the other.

Nobody can ask Redis for its tenants without walking through all keys, so each process says whose data it writes before
it writes them, and says it again now and then: after a failover the first time may be lost.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

from antiphon_core.ports.retention import Sweeping
from antiphon_store.backends.redis import scripts
from antiphon_store.backends.redis.engine import Engine
from antiphon_store.backends.redis.keys import TENANTS
from antiphon_store.backends.redis.link import Link

SWEPT_PER_SCRIPT = 64  # 10 to 25 ms, in which that server serves nobody else
ANNOUNCE_AGAIN_S = 3600.0


class Announcements:
    """Which tenants this process has announced, and when."""

    def __init__(self) -> None:
        self._announced_s: dict[str, float] = {}

    def are_due(self, tenant: str) -> bool:
        """Whether the tenant has to be announced before its data are written."""
        return time.monotonic() >= self._announced_s.get(tenant, -ANNOUNCE_AGAIN_S) + ANNOUNCE_AGAIN_S

    async def make(self, link: Link, tenant: str) -> None:
        """Returns when the tenant is in the set of all tenants."""
        now_s = time.monotonic()
        await link.run(scripts.ANNOUNCE, [TENANTS], [tenant])
        self._announced_s[tenant] = now_s


class _Sweeper(Engine, Protocol):
    """What retention needs besides."""

    @property
    def _opened(self) -> Link: ...


class RedisRetention:
    """Implements `roles.retention.RetentionAtoms` for RedisBackend."""

    async def sweep(self: _Sweeper, tenant: str, *, limit: int) -> Sweeping:
        keys = [self._keys.tenant_root(tenant, "Sweep")]
        while True:
            answer = await self._run(scripts.SWEEP, tenant, keys, [min(limit, SWEPT_PER_SCRIPT)])
            records, size_bytes, has_more = answer
            if records or not has_more:
                return Sweeping(records, size_bytes, has_more=bool(has_more))

    async def tenants(self: _Sweeper) -> Sequence[str]:
        """Nobody when tenants are spread over slots: there, nothing is swept."""
        found: dict[str, None] = {}
        position = b"0"
        while True:
            _ok, position, names = await self._opened.run(scripts.TENANTS, [TENANTS], [position])
            found |= dict.fromkeys(name.decode() for name in names)
            if position == b"0":
                return list(found)
