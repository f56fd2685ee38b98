"""HTTP connections to the server of one model, kept for the next request.

A server may close a connection at the moment in which it is used again, and the request is lost. Such a request is sent
once more on a new connection, also a POST: not one byte of its answer had come, and a server stops a generation whose
connection is gone. A request that fails on a new connection has failed.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import aiohttp

from antiphon_core.limits import ENGINE_CONNECTIONS_ITEMS_MAX

KEEPALIVE_S = 4.0
"""Servers on uvicorn (vLLM, SGLang, NIM) close a connection that was idle for 5 s; most that are closed while a request
is on its way are met by closing first."""


class HttpPool:
    """The connections to one server. Make, use and close it inside one event loop."""

    def __init__(self) -> None:
        self._kept = _session(
            aiohttp.TCPConnector(limit=ENGINE_CONNECTIONS_ITEMS_MAX, keepalive_timeout=KEEPALIVE_S), _note_reuse()
        )
        self._new = _session(aiohttp.TCPConnector(limit=ENGINE_CONNECTIONS_ITEMS_MAX, force_close=True))

    async def request(
        self, method: str, url: str, body: bytes | None, headers: Mapping[str, str]
    ) -> aiohttp.ClientResponse:
        """The head of the answer. Raises what aiohttp raises."""
        connection = SimpleNamespace(is_reused=False)
        try:
            return await self._kept.request(method, url, data=body, headers=headers, trace_request_ctx=connection)
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
            if not connection.is_reused:
                raise
        return await self._new.request(method, url, data=body, headers=headers)

    async def close(self) -> None:
        await self._kept.close()
        await self._new.close()


def _session(connector: aiohttp.TCPConnector, *traces: aiohttp.TraceConfig) -> aiohttp.ClientSession:
    # The time limits of a stream are those of its tokens, of which aiohttp knows nothing.
    timeout = aiohttp.ClientTimeout(total=None)
    return aiohttp.ClientSession(
        timeout=timeout,
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),  # requests of one tenant must not bring what another was given
        trace_configs=list(traces),
    )


def _note_reuse() -> aiohttp.TraceConfig:
    """Notes in the context of a request that its connection was used before."""

    async def note(_session: aiohttp.ClientSession, trace: SimpleNamespace, _params: Any) -> None:
        trace.trace_request_ctx.is_reused = True

    config = aiohttp.TraceConfig()
    config.on_connection_reuseconn.append(note)
    return config
