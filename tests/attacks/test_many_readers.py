"""Hundreds of streams of one response: each gets every event, so that one token becomes hundreds of frames."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from antiphon_edge.access_settings import READERS_PER_RESPONSE
from antiphon_edge.settings import EdgeSettings
from tests.support.edge import running_edge
from tests.support.waiting import WAIT_MAX_S

MOST = 3


async def test_readers_of_a_response_beyond_the_limit_are_rejected_with_the_setting_until_one_leaves() -> None:
    async with running_edge(readers_per_response=MOST) as edge, asyncio.timeout(WAIT_MAX_S):
        running, other = [(await edge.create(background=True)).json["id"] for _ in range(2)]
        url = f"{edge.http.url}/v1/responses/{running}?stream=true"
        async with AsyncExitStack() as readers:
            for _ in range(MOST):
                answer = await readers.enter_async_context(edge.http.session.get(url))
                assert answer.status == 200
                assert await answer.content.readline()
            refused = await edge.ask("GET", f"/v1/responses/{running}?stream=true")
            assert (refused.status, refused.error["code"]) == (429, "rate_limit_exceeded")
            assert "edge.readers_per_response" in refused.error["message"]
            assert (await edge.ask("GET", f"/v1/responses/{running}")).status == 200
            async with edge.http.session.get(f"{edge.http.url}/v1/responses/{other}?stream=true") as answer:
                assert answer.status == 200
        while True:  # the server notes that the readers have left
            async with edge.http.session.get(url) as answer:
                if answer.status == 200:
                    break


async def test_requests_that_repeat_a_key_count_as_readers_of_its_response() -> None:
    """Each of them followed the event log, without a limit."""
    async with running_edge(readers_per_response=MOST) as edge:
        edge.translator.hang = True
        url, headers = f"{edge.http.url}/v1/responses", {"idempotency-key": "k"}
        body = {"model": "m", "input": "x", "stream": True}
        async with AsyncExitStack() as readers, asyncio.timeout(WAIT_MAX_S):
            for _ in range(1 + MOST):  # the first one runs the turn
                answer = await readers.enter_async_context(edge.http.session.post(url, json=body, headers=headers))
                assert answer.status == 200
                assert await answer.content.readline()
            refused = await edge.http.ask("POST", "/v1/responses", body, headers=headers)
            assert (refused.status, refused.error["code"]) == (429, "rate_limit_exceeded")
            assert "edge.readers_per_response" in refused.error["message"]


def test_readers_of_a_response_are_limited_by_default() -> None:
    assert EdgeSettings().readers_per_response == READERS_PER_RESPONSE > 0
