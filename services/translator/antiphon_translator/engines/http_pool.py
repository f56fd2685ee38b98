"""HTTP connections to the server of one model, kept alive for later requests.

A server may close an idle connection just when the next request is sent on it. Such a request is retried once on a new
connection, also a POST: no byte of its answer had arrived, and a server stops a generation whose connection is closed.
A request that fails on a new connection is not retried.

A redirect is not followed: the prompt and the API key would go to a server that no operator named. Answers are asked
for without compression and are not decompressed: 100 KB of gzip can hold 100 MB, which would be in memory before the
first limit sees a byte (docs/adr/0138-bounds-on-what-engines-send.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import aiohttp

from antiphon_core.egress.http_connections import BoundedConnector
from antiphon_core.limits import ENGINE_CONNECTIONS_ITEMS_MAX

KEEPALIVE_S = 4.0
"""Seconds after which an idle connection is closed here. Servers on uvicorn (vLLM, SGLang, NIM) close it after 5 s;
closing first avoids most lost requests."""

CHUNK_BYTES = 4
"""Content for a byte of framing. Servers send an event, of 40 bytes or more, as one to three chunks."""


class HttpPool:
    """The connections to one server. Create, use and close it inside one event loop."""

    def __init__(self) -> None:
        self._kept = _session(_connector(keepalive_timeout=KEEPALIVE_S), _note_reuse())
        self._new = _session(_connector(force_close=True))

    async def request(
        self, method: str, url: str, body: bytes | None, headers: Mapping[str, str]
    ) -> aiohttp.ClientResponse:
        """Sends a request and returns its response, whose body is not read yet. Raises what aiohttp raises."""
        connection = SimpleNamespace(is_reused=False)
        try:
            return await self._kept.request(
                method, url, data=body, headers=headers, allow_redirects=False, trace_request_ctx=connection
            )
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
            if not connection.is_reused:
                raise
        return await self._new.request(method, url, data=body, headers=headers, allow_redirects=False)

    async def close(self) -> None:
        await self._kept.close()
        await self._new.close()


def _session(connector: aiohttp.TCPConnector, *traces: aiohttp.TraceConfig) -> aiohttp.ClientSession:
    # No timeout of aiohttp's: token_timeouts.py limits the time between the tokens of a stream.
    timeout = aiohttp.ClientTimeout(total=None)
    return aiohttp.ClientSession(
        timeout=timeout,
        connector=connector,
        headers={"Accept-Encoding": "identity"},
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),  # a cookie set for one tenant must not go out with another's request
        trace_configs=list(traces),
    )


def _note_reuse() -> aiohttp.TraceConfig:
    """Records in the trace context of a request that its connection was used before."""

    async def note(_session: aiohttp.ClientSession, trace: SimpleNamespace, _params: Any) -> None:
        trace.trace_request_ctx.is_reused = True

    config = aiohttp.TraceConfig()
    config.on_connection_reuseconn.append(note)
    return config


def _connector(**options: Any) -> BoundedConnector:
    return BoundedConnector(chunk_bytes=CHUNK_BYTES, limit=ENGINE_CONNECTIONS_ITEMS_MAX, **options)
