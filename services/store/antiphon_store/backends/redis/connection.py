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
from typing import Any, NamedTuple, TypeVar

import hiredis
from redis.asyncio import Redis, RedisCluster, Sentinel
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.connection import AbstractConnection, ConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff, NoBackoff
from redis.exceptions import ResponseError

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


class Servers(NamedTuple):
    """The client of the servers that hold the data, and those of the Sentinels."""

    client: Redis | RedisCluster
    sentinels: tuple[Redis, ...] = ()


async def on_open_connection(ask: Callable[[], Awaitable[T]]) -> T:
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


async def exchange(pool: ConnectionPool, commands: Sequence[Sequence[Any]]) -> list[Any]:
    """The answers to commands, with an error for one that the server rejected. It takes 8 us a command; a pipeline of
    redis-py takes 36, because it packs in Python and sets a timer for each answer."""
    packed = b"".join(hiredis.pack_command(tuple(command)) for command in commands)
    connection = await pool.get_connection()  # type: ignore[no-untyped-call]
    try:
        await connection.send_packed_command(packed)
        async with asyncio.timeout(connection.socket_timeout):
            return [await _answer(connection) for _ in commands]
    finally:
        await pool.release(connection)  # ends at once: no connection but a Cluster's is closed here


async def _answer(connection: AbstractConnection) -> Any:
    """The next answer, or the error that the server returned. Any other error closes the connection."""
    try:
        return await connection.read_response(timeout=math.inf)
    except ResponseError as error:
        return error


def connect(address: Address) -> Servers:
    """Makes the client of an address, which connects when it is first used."""
    login: dict[str, Any] = {"username": address.username, "password": address.password, "ssl": address.has_tls}
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
