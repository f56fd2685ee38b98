from __future__ import annotations

import redis

from antiphon_store.backends.redis import tenants
from antiphon_store.backends.redis.addresses import parse_address
from antiphon_store.backends.redis.connection import connect
from antiphon_store.backends.redis.keys import TENANTS
from antiphon_store.backends.redis.link import Link
from antiphon_store.backends.redis.tenants import TenantDirectory
from tests.support.redis_servers import shared_redis


async def test_a_tenant_is_announced_again_after_a_while(server: redis.Redis, tenant: str) -> None:
    link = Link(connect(parse_address("redis", shared_redis().url.removeprefix("redis://"))))
    directory = TenantDirectory()
    await directory.announce(link, tenant)
    assert tenant in await directory.all(link)
    server.srem(TENANTS, tenant)
    await directory.announce(link, tenant)
    assert tenant not in await directory.all(link)  # it was said a moment ago
    directory._announced_s[tenant] -= tenants.ANNOUNCE_AGAIN_S
    await directory.announce(link, tenant)
    assert tenant in await directory.all(link)
    await link.close()
