"""The MCP clients of a process: one for each tenant, server and credentials, so that no session is ever shared.

The operator's server and one that a request names are two servers, even at one URL: their rules differ.

A client that was idle for IDLE_S is closed, which ends its session. Two pools of HTTP connections have different rules:
the operator's servers may be on private networks, and those that requests name may be where the settings allow.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp

from antiphon_core.clock import Clock
from antiphon_core.egress.guarded_session import guarded_session
from antiphon_core.egress.resolver import Resolver
from antiphon_core.egress.urls import Permits, permits_of
from antiphon_tools.mcp.client import McpClient, connection_notes
from antiphon_tools.mcp.protocol import Stateless
from antiphon_tools.targets import Target

IDLE_S = 60.0
CLIENTS_ITEMS_MAX = 1_024
ERAS_ITEMS_MAX = 4_096
CONNECTIONS_ITEMS_MAX = 512
LOOKUPS_ITEMS_MAX = 16
KEEPALIVE_S = 4.0  # servers on uvicorn close an idle connection after 5 s; closing first loses no request
CHUNK_BYTES = 4  # content for a byte of framing: a chunk has an event, of 40 bytes or more

_HEADERS = {"User-Agent": "antiphon", "Accept-Encoding": "identity"}
_Key = tuple[str, str, str]


@dataclass(slots=True)
class _Held:
    """A client, the number of its users, and when the last one left."""

    client: McpClient
    users: int = 0
    idle_since_s: float = 0.0


class Connections:
    """Create, use and close it inside one event loop. `client_permits` is the rule for the addresses of servers that
    requests name."""

    def __init__(self, client_permits: Permits, *, wire_bytes: int, clock: Clock) -> None:
        self._wire_bytes = wire_bytes
        self._clock = clock
        self._permits = {True: permits_of(private_addresses=True), False: client_permits}
        self._sessions: dict[bool, aiohttp.ClientSession] = {}
        self._resolver: Resolver | None = None
        self._held: OrderedDict[_Key, _Held] = OrderedDict()
        self._stateless: OrderedDict[str, None] = OrderedDict()
        """The URLs that are known to be of the stateless era: they need no probe."""
        self._closing: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def client(self, tenant: str, target: Target) -> AsyncIterator[McpClient]:
        """A client of a server, with the credentials of the target."""
        self._close_idle()
        key = (tenant, target.identity, target.credential_digest)
        held = self._held.get(key)
        if held is None:
            held = self._held[key] = _Held(self._make(target))
        self._held.move_to_end(key)
        held.users += 1
        try:
            yield held.client
        finally:
            held.users -= 1
            held.idle_since_s = self._clock.monotonic()
            if held.client.is_stateless:
                _remember(self._stateless, target.url)

    def operator_session(self) -> aiohttp.ClientSession:
        """The HTTP client for servers that the operator names, such as a search provider."""
        return self._session(is_operators=True)

    async def close(self) -> None:
        for key in tuple(self._held):
            self._drop(key)
        await asyncio.gather(*self._closing, return_exceptions=True)
        for session in self._sessions.values():
            await session.close()
        if self._resolver is not None:
            await self._resolver.close()

    def _make(self, target: Target) -> McpClient:
        peer = Stateless() if target.url in self._stateless else None
        session = self._session(is_operators=target.operator is not None)
        return McpClient(session, target.url, target.headers, wire_bytes=self._wire_bytes, peer=peer)

    def _session(self, *, is_operators: bool) -> aiohttp.ClientSession:
        if is_operators not in self._sessions:
            self._resolver = self._resolver or Resolver(LOOKUPS_ITEMS_MAX)
            self._sessions[is_operators] = guarded_session(
                self._permits[is_operators],
                self._resolver,
                headers=_HEADERS,
                chunk_bytes=CHUNK_BYTES,
                connections_max=CONNECTIONS_ITEMS_MAX,
                keepalive_s=KEEPALIVE_S,
                traces=[connection_notes()],
            )
        return self._sessions[is_operators]

    def _close_idle(self) -> None:
        """Closes clients that were idle for long, and the one that is idle for longest if there are too many."""
        oldest_s = self._clock.monotonic() - IDLE_S
        idle = [key for key, held in self._held.items() if not held.users]
        surplus = max(0, len(self._held) - CLIENTS_ITEMS_MAX)
        for number, key in enumerate(idle):
            if number < surplus or self._held[key].idle_since_s < oldest_s:
                self._drop(key)

    def _drop(self, key: _Key) -> None:
        task = asyncio.create_task(self._held.pop(key).client.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


def _remember(urls: OrderedDict[str, None], url: str) -> None:
    urls[url] = None
    urls.move_to_end(url)
    if len(urls) > ERAS_ITEMS_MAX:
        urls.popitem(last=False)
