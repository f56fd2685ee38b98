from __future__ import annotations

import asyncio
import logging

import pytest
from redis.asyncio import Redis, RedisCluster
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from antiphon import event_loop
from antiphon_core.errors import StoreUnavailable
from antiphon_store.backends.redis.addresses import parse_address
from antiphon_store.backends.redis.connection import Servers, connect
from antiphon_store.backends.redis.link import Link
from tests.support.redis_servers import shared_cluster, shared_redis


def servers_at(url: str) -> tuple[Servers, Link]:
    scheme, _, rest = url.partition("://")
    servers = connect(parse_address(scheme, rest))
    return servers, Link(servers)


async def test_one_server_is_asked_as_the_only_master() -> None:
    servers, link = servers_at(f"{shared_redis().url}/1")
    assert isinstance(servers.client, Redis)
    assert await link.ask_masters("PING") == [True]
    assert servers.client.connection_pool.connection_kwargs["db"] == 1
    await link.close()


async def test_every_master_of_a_cluster_is_asked() -> None:
    servers, link = servers_at(shared_cluster().url)
    assert isinstance(servers.client, RedisCluster)
    assert await link.ask_masters("PING") == [True] * 3
    await link.close()


async def test_one_node_is_enough_to_find_a_cluster() -> None:
    _, link = servers_at(f"redis+cluster://127.0.0.1:{shared_cluster().masters[0].port}")
    assert len(await link.ask_masters("PING")) == 3
    await link.close()


async def test_a_sentinel_address_makes_a_client_for_each_sentinel() -> None:
    servers, link = servers_at("redis+sentinel://a,b:1/main")
    assert len(servers.sentinels) == 2
    assert isinstance(await link._translate(RedisConnectionError("gone")), StoreUnavailable)
    await link.close()


async def test_a_timeout_while_closing_is_logged_and_not_raised(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def silence(self: Redis) -> None:
        raise RedisTimeoutError("Timed out closing connection after 1.0")

    caplog.set_level(logging.INFO)
    monkeypatch.setattr(Redis, "aclose", silence)
    await servers_at("redis://127.0.0.1:1")[1].close()
    assert "not closed in time: Timed out" in caplog.text


def test_closed_cluster_connections_are_replaced_on_uvloop() -> None:
    """A write to a closed connection raises an error in uvloop that redis-py does not know."""

    async def lose_connections() -> list[object]:
        servers, link = servers_at(shared_cluster().url)
        assert isinstance(servers.client, RedisCluster)
        await link.ask_masters("PING")
        for node in servers.client.get_primaries():
            for connection in node._connections:
                assert connection._writer is not None
                connection._writer.transport.abort()
        await asyncio.sleep(0)
        try:
            return await link.ask_masters("PING")
        finally:
            await link.close()

    assert event_loop.run(lose_connections()) == [True] * 3
