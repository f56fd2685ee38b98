"""Makes the client of an address: of one master, of the master that Sentinel names, or of a Cluster.

Every call has a timeout. A client does not retry a call without an answer, because a write may have happened: its
caller decides. Only the client of a Cluster follows redirections, and retries once with the new layout of the slots:
every write can be repeated.
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

CALLS_MAX = 64  # at once; a server runs one script at a time, so more calls would only wait there instead of here
CONNECT_TIMEOUT_S = 2.0  # a SYN that was lost is sent again after one second
ANSWER_TIMEOUT_S = 3.0  # longer than a slow fsync, shorter than a failover
SENTINEL_TIMEOUT_S = 0.3  # the next Sentinel is tried within the timeout of `ready`
CLUSTER_RETRIES = 1

CONNECTIONS_MAX = CALLS_MAX + 16  # some more for readiness and checks

OPTIONS: dict[str, Any] = {
    "socket_connect_timeout": CONNECT_TIMEOUT_S,
    "socket_timeout": ANSWER_TIMEOUT_S,
    "socket_keepalive": True,
    "max_connections": CONNECTIONS_MAX,
}


@dataclass(frozen=True, slots=True)
class Servers:
    """The client of the servers that hold the data, and those of the Sentinels."""

    client: Redis | RedisCluster
    sentinels: tuple[Redis, ...] = ()

    async def ask(self, *command: Any, **options: Any) -> Any:
        """The answer to a command. Connections that the server has closed are skipped."""
        return await _on_open_connection(lambda: self.client.execute_command(*command, **options))

    async def ask_together(self, commands: Sequence[Sequence[Any]]) -> list[Any]:
        """The answers to commands, with an error for a command that failed. Commands to one server are one pipeline, so
        an error that is not of the server fails all. Connections that the server has closed are skipped."""
        if isinstance(self.client, RedisCluster):
            return await asyncio.gather(*[self.ask(*command) for command in commands], return_exceptions=True)
        pool = self.client.connection_pool
        packed = b"".join(hiredis.pack_command(tuple(command)) for command in commands)
        return await _on_open_connection(lambda: _exchanged(pool, packed, answers=len(commands)))

    async def ask_masters(self, *command: str) -> list[Any]:
        """The answer of every master to a command without keys."""
        if isinstance(self.client, Redis):
            return [await self.ask(*command)]
        await self.client.initialize()
        return [await self.ask(*command, target_nodes=node) for node in self.client.get_primaries()]

    async def ask_again_for_master(self) -> None:
        """Under Sentinel, closes idle connections, so that the next call asks for the master. A master that was
        replaced while it was frozen keeps its connections, and rejects writes on them."""
        if self.sentinels and isinstance(self.client, Redis):
            await self.client.connection_pool.disconnect(inuse_connections=False)

    async def close(self) -> None:
        """Closes all connections, also to servers that do not answer."""
        for client in (self.client, *self.sentinels):
            try:
                await client.aclose()
            except RedisError as error:
                log.info("a connection was not closed in time: %s", error)


async def _on_open_connection(ask: Callable[[], Awaitable[T]]) -> T:
    """Calls `ask` until it uses a connection that the server has not closed.

    With asyncio redis-py connects again after such a connection, or raises its own ConnectionError. uvloop raises
    RuntimeError before anything is sent; redis-py drops the connection and lets that error pass.
    """
    for _ in range(CONNECTIONS_MAX):
        try:
            return await ask()
        except AttributeError as error:
            # redis-py 8.1: a connection that another call has dropped has no writer any more (pull request 4288).
            raise ConnectionError("the connection was dropped while it was in use") from error
        except RuntimeError as error:
            log.info("the server had closed a connection: %s", error)
    raise ConnectionError("all connections were closed by the server")


async def _exchanged(pool: ConnectionPool, packed: bytes, *, answers: int) -> list[Any]:
    """The answers to packed commands. It takes 8 us a command; redis-py's own pipeline takes 36, because it packs in
    Python and sets a timer for each answer."""
    connection = await pool.get_connection()  # type: ignore[no-untyped-call]
    try:
        await connection.send_packed_command(packed)
        async with asyncio.timeout(connection.socket_timeout):
            return [await _answer(connection) for _ in range(answers)]
    finally:
        await asyncio.shield(pool.release(connection))


async def _answer(connection: AbstractConnection) -> Any:
    """The next answer, or the error that the server returned. Any other error closes the connection."""
    try:
        return await connection.read_response(timeout=math.inf)
    except ResponseError as error:
        return error


def connect(address: Address) -> Servers:
    """Makes the client of an address, which connects when it is first used."""
    login: dict[str, Any] = {"username": address.username, "password": address.password, "ssl": address.tls}
    if address.topology is Topology.CLUSTER:
        retry = Retry(ExponentialBackoff(base=0.05, cap=0.5), CLUSTER_RETRIES)
        nodes = [ClusterNode(host, port) for host, port in address.nodes]
        return Servers(RedisCluster(startup_nodes=nodes, retry=retry, **login, **OPTIONS))
    options = {"db": address.database, "retry": _no_retry(), **login, **OPTIONS}
    if address.topology is Topology.SENTINEL:
        return _connect_by_sentinel(address, options)
    ((host, port),) = address.nodes
    return Servers(Redis(host=host, port=port, **options))


def _connect_by_sentinel(address: Address, options: dict[str, Any]) -> Servers:
    timeout_s = SENTINEL_TIMEOUT_S
    limits = {"socket_connect_timeout": timeout_s, "socket_timeout": timeout_s, "retry": _no_retry()}
    sentinel = Sentinel(address.nodes, sentinel_kwargs=limits)  # type: ignore[no-untyped-call]
    return Servers(sentinel.master_for(address.service or "", **options), tuple(sentinel.sentinels))


def _no_retry() -> Retry:
    return Retry(NoBackoff(), 0)
