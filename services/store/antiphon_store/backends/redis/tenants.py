"""The set of all tenants.

Nobody can ask Redis for its tenants without walking through all keys, so each process says whose data it writes before
it writes them, and says it again now and then: after a failover the first time may be lost.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from antiphon_store.backends.redis import scripts
from antiphon_store.backends.redis.keys import TENANTS
from antiphon_store.backends.redis.link import Link

ANNOUNCE_AGAIN_S = 3600.0


class TenantDirectory:
    """Which tenants there are, and when this process said so last."""

    def __init__(self) -> None:
        self._announced_s: dict[str, float] = {}

    async def announce(self, link: Link, tenant: str) -> None:
        """Returns when the tenant is in the set; costs a call now and then."""
        now_s = time.monotonic()
        if now_s < self._announced_s.get(tenant, -ANNOUNCE_AGAIN_S) + ANNOUNCE_AGAIN_S:
            return
        await link.run(scripts.ANNOUNCE, [TENANTS], [tenant])
        self._announced_s[tenant] = now_s

    async def all(self, link: Link) -> Sequence[str]:
        """Each once, of no single moment."""
        found: dict[str, None] = {}
        position = b"0"
        while True:
            _ok, position, names = await link.run(scripts.TENANTS, [TENANTS], [position])
            found |= dict.fromkeys(name.decode() for name in names)
            if position == b"0":
                return list(found)
