from __future__ import annotations

import asyncio

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from antiphon_core.ids import RandomIds
from antiphon_edge.http.request_ids import RequestsInProgress, observe

NEVER_S = 3_600.0


async def test_requests_count_until_their_handlers_return_or_fail() -> None:
    requests, release = RequestsInProgress(), asyncio.Event()

    async def answer(_request: web.Request) -> web.StreamResponse:
        await release.wait()
        return web.Response()

    async def fail(_request: web.Request) -> web.StreamResponse:
        await release.wait()
        raise ValueError

    running = [
        asyncio.ensure_future(observe(handler, RandomIds(), requests)(make_mocked_request("GET", "/")))
        for handler in (answer, fail, answer)
    ]
    await asyncio.sleep(0)
    assert requests.count == 3
    waiting = asyncio.create_task(requests.wait_end(NEVER_S))
    release.set()
    await waiting
    assert requests.count == 0
    assert [type(await each) for each in running[::2]] == [web.Response] * 2
    with pytest.raises(ValueError):
        await running[1]


async def test_wait_ends_at_once_without_requests_and_at_its_timeout_with_some() -> None:
    requests = RequestsInProgress()
    await requests.wait_end(NEVER_S)
    requests.count = 1
    await requests.wait_end(0)
    assert requests.count == 1
