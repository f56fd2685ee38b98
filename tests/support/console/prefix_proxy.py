"""A reverse proxy that serves an edge below a path prefix, as an ingress does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
from aiohttp import web

_HOP = {"host", "connection", "content-length", "transfer-encoding", "content-encoding", "accept-encoding"}


@asynccontextmanager
async def below_prefix(url: str, prefix: str) -> AsyncIterator[str]:
    """Runs the proxy and yields the URL of the edge, with the prefix."""
    async with aiohttp.ClientSession(auto_decompress=True) as session:

        async def forward(request: web.Request) -> web.StreamResponse:
            headers = {name: value for name, value in request.headers.items() if name.lower() not in {*_HOP, "origin"}}
            path = request.rel_url.raw_path.removeprefix(prefix)
            target = f"{url}{path}?{request.rel_url.raw_query_string}"
            body = await request.read()
            async with session.request(
                request.method, target, headers=headers, data=body, allow_redirects=False
            ) as got:
                kept = {name: value for name, value in got.headers.items() if name.lower() not in _HOP}
                answer = web.StreamResponse(status=got.status, headers=kept)
                await answer.prepare(request)
                async for piece in got.content.iter_any():
                    await answer.write(piece)
                return answer

        application = web.Application()
        application.router.add_route("*", prefix + "/{tail:.*}", forward)
        runner = web.AppRunner(application, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        try:
            yield f"http://127.0.0.1:{runner.addresses[0][1]}{prefix}"
        finally:
            await runner.cleanup()
