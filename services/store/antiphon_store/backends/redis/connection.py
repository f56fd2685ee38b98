"""From an address to the servers: one master, the master that Sentinel names, or a cluster.

Timeouts are bounded, and a client asks nothing twice by itself: whether a write that got no answer is asked for again,
the caller decides. Only a cluster's client follows redirections, and asks once more after it has learnt the new layout,
as its callers would: every write can be repeated.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import hiredis
from redis.asyncio import Redis, RedisCluster, Sentinel
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.connection import AbstractConnection, ConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff, NoBackoff
from redis.exceptions import RedisError, ResponseError

from antiphon_store.backends.redis.addresses import Address, Topology

log = logging.getLogger(__name__)

T = TypeVar("T")

CALLS_MAX = 64  # at once; a server runs one script at a time, more would only wait there instead of here
CONNECT_TIMEOUT_S = 2.0  # a SYN that was lost is sent again after one second
ANSWER_TIMEOUT_S = 3.0  # longer than an fsync on a bad day, shorter than a failover should be noticed
SENTINEL_TIMEOUT_S = 0.3  # one that does not answer is passed over, within what `ready` may take
CLUSTER_RETRIES = 1

CONNECTIONS_MAX = CALLS_MAX + 16  # readiness and checks come on top

OPTIONS: dict[str, Any] = {
    "socket_connect_timeout": CONNECT_TIMEOUT_S,
    "socket_timeout": ANSWER_TIMEOUT_S,
    "socket_keepalive": True,
    "max_connections": CONNECTIONS_MAX,
}


@dataclass(frozen=True, slots=True)
class Servers:
    """A client of the servers that hold the data, and of those that watch them."""

    client: Redis | RedisCluster
    sentinels: tuple[Redis, ...] = ()

    async def ask(self, *command: Any, **options: Any) -> Any:
        """The answer to a command. A connection that the server has closed is passed over."""
        return await _past_closed(lambda: self.client.execute_command(*command, **options))

    async def ask_together(self, commands: Sequence[Sequence[Any]]) -> list[Any]:
        """The answers to commands that go out together on one connection; of a command that the server refused, its
        error. Not on a cluster. A connection that the server has closed is passed over."""
        assert isinstance(self.client, Redis)  # noqa: S101 - the caller's promise
        pool = self.client.connection_pool
        packed = b"".join(hiredis.pack_command(tuple(command)) for command in commands)
        return await _past_closed(lambda: _exchanged(pool, packed, answers=len(commands)))

    async def ask_masters(self, *command: str) -> list[Any]:
        """The answer of every master to a command without keys."""
        if isinstance(self.client, Redis):
            return [await self.ask(*command)]
        await self.client.initialize()
        return [await self.ask(*command, target_nodes=node) for node in self.client.get_primaries()]

    async def ask_again_for_master(self) -> None:
        """Under Sentinel: lets go of idle connections, so that the next call learns who the master is. One that was
        replaced while it slept keeps its connections, and refuses on each."""
        if self.sentinels and isinstance(self.client, Redis):
            await self.client.connection_pool.disconnect(inuse_connections=False)

    async def close(self) -> None:
        """Says goodbye; servers that do not answer are left all the same."""
        for client in (self.client, *self.sentinels):
            try:
                await client.aclose()
            except RedisError as error:
                log.info("a connection was not closed in time: %s", error)


async def _past_closed(ask: Callable[[], Awaitable[T]]) -> T:
    """Answers `ask` on a connection that the server has not closed.

    redis-py asks again, or fails with its own ConnectionError, where asyncio reports such a connection. uvloop raises
    RuntimeError before anything is sent, and redis-py lets that pass; it gives up the connection.
    """
    for _ in range(CONNECTIONS_MAX):
        try:
            return await ask()
        except AttributeError as error:
            # redis-py 8.1: a connection that another call gave up on has no writer any more (pull request 4288).
            raise ConnectionError("the connection was given up while it was in use") from error
        except RuntimeError as error:
            log.info("a connection that was closed is given up: %s", error)
    raise ConnectionError("all connections were closed by the server")


async def _exchanged(pool: ConnectionPool, packed: bytes, *, answers: int) -> list[Any]:
    """The answers to packed commands. redis-py's own pipeline packs in Python, and sets a timer for each answer: that
    costs 36 us a command, and this 8."""
    connection = await pool.get_connection()  # type: ignore[no-untyped-call]
    try:
        await connection.send_packed_command(packed)
        async with asyncio.timeout(connection.socket_timeout):
            return [await _answer(connection) for _ in range(answers)]
    finally:
        await asyncio.shield(pool.release(connection))


async def _answer(connection: AbstractConnection) -> Any:
    """The next answer, or the error that the server answers. Any other error closes the connection."""
    try:
        return await connection.read_response(timeout=math.inf)
    except ResponseError as error:
        return error


def connect(address: Address) -> Servers:
    """Connections are opened when they are needed."""
    login: dict[str, Any] = {"username": address.username, "password": address.password, "ssl": address.tls}
    if address.topology is Topology.CLUSTER:
        retry = Retry(ExponentialBackoff(base=0.05, cap=0.5), CLUSTER_RETRIES)
        nodes = [ClusterNode(host, port) for host, port in address.nodes]
        return Servers(RedisCluster(startup_nodes=nodes, retry=retry, **login, **OPTIONS))
    options = {"db": address.database, "retry": _never(), **login, **OPTIONS}
    if address.topology is Topology.SENTINEL:
        return _watched(address, options)
    ((host, port),) = address.nodes
    return Servers(Redis(host=host, port=port, **options))


def _watched(address: Address, options: dict[str, Any]) -> Servers:
    timeouts = {"socket_connect_timeout": SENTINEL_TIMEOUT_S, "socket_timeout": SENTINEL_TIMEOUT_S, "retry": _never()}
    watch = Sentinel(address.nodes, sentinel_kwargs=timeouts)  # type: ignore[no-untyped-call]
    return Servers(watch.master_for(address.service or "", **options), tuple(watch.sentinels))


def _never() -> Retry:
    return Retry(NoBackoff(), 0)
