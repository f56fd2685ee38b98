from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from antiphon_core.clock import ManualClock
from antiphon_core.jsons import dumps
from antiphon_core.ports.quotas import Draw, Hold, QuotaRequest
from antiphon_edge.quotas.admission import duration
from tests.support.api_keys import KeyFiles, bearer
from tests.support.edge import RunningEdge, running_edge
from tests.support.thinking_edges import thinking_edges
from tests.support.waiting import WAIT_MAX_S, until

PLENTY = 1_000


def quota_headers(headers: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.startswith("x-ratelimit-")}


async def test_every_answer_has_rate_limit_headers() -> None:
    clock = ManualClock()
    async with running_edge(requests_per_minute=60, tokens_per_minute=PLENTY, clock=clock) as edge:
        first = await edge.create()
        assert quota_headers(first.headers) == {
            "x-ratelimit-limit-requests": "60",
            "x-ratelimit-remaining-requests": "59",
            "x-ratelimit-reset-requests": "1s",
            "x-ratelimit-limit-tokens": str(PLENTY),
            "x-ratelimit-remaining-tokens": str(PLENTY - 5),
            "x-ratelimit-reset-tokens": "300ms",
        }
        for number, (method, path) in enumerate([("GET", "/v1/models"), ("GET", "/v1/nowhere"), ("PUT", "/v1/models")]):
            answer = await edge.ask(method, path)
            assert answer.headers["x-ratelimit-remaining-requests"] == str(58 - number)
        streamed = await edge.create(stream=True)
        assert streamed.headers["x-ratelimit-remaining-tokens"] == str(PLENTY - 5)
        assert (await edge.create()).headers["x-ratelimit-remaining-tokens"] == str(PLENTY - 15)


async def test_without_limits_answers_have_no_rate_limit_headers() -> None:
    async with running_edge() as edge:
        assert quota_headers((await edge.create()).headers) == {}


async def test_probes_are_not_counted_and_have_no_rate_limit_headers() -> None:
    async with running_edge(requests_per_minute=1) as edge:
        for _ in range(3):
            answer = await edge.ask("GET", "/v1/health/live")
            assert (answer.status, quota_headers(answer.headers)) == (200, {})


async def test_request_over_the_rate_limit_is_rejected_with_429() -> None:
    async with running_edge(requests_per_minute=2, clock=ManualClock()) as edge:
        for _ in range(2):
            assert (await edge.create()).status == 200
        for stream in (False, True):
            answer = await edge.create(stream=stream)
            assert answer.status == 429
            assert answer.error == {
                "message": "Rate limit reached on requests per minute: Limit 2. Please try again in 30s.",
                "type": "requests",
                "param": None,
                "code": "rate_limit_exceeded",
            }
            assert (answer.headers["retry-after"], answer.headers["retry-after-ms"]) == ("30", "30000")
            assert answer.headers["x-ratelimit-remaining-requests"] == "0"
        assert len(edge.translator.turns) == 2


async def test_generation_is_rejected_until_used_up_tokens_return() -> None:
    clock = ManualClock()
    async with running_edge(tokens_per_minute=6, clock=clock) as edge:
        assert (await edge.create()).status == 200
        assert (await edge.create(stream=True)).status == 200
        answer = await edge.create()
        assert (answer.status, answer.error["type"], answer.error["code"]) == (429, "tokens", "rate_limit_exceeded")
        assert (answer.headers["retry-after"], answer.headers["retry-after-ms"]) == ("50", "50000")
        assert (await edge.ask("GET", "/v1/models")).status == 200
        clock.advance(50)
        assert (await edge.create()).status == 200


async def test_prompt_that_is_read_in_advance_takes_tokens_of_the_quota() -> None:
    async with running_edge(tokens_per_minute=6, clock=ManualClock()) as edge:
        for _ in range(2):
            assert (await edge.create(prompt_cache_options={"prewarm": True})).status == 200
        assert (await edge.create(prompt_cache_options={"prewarm": True})).status == 429
        assert len(edge.translator.turns) == 2


@pytest.mark.parametrize("stream", [False, True])
async def test_replay_of_a_keyed_turn_is_not_charged_again(stream: bool) -> None:
    async with running_edge(tokens_per_minute=PLENTY, clock=ManualClock()) as edge:
        body = dumps({"model": "m", "input": "hi", "stream": stream})
        first, second = [
            await edge.ask("POST", "/v1/responses", body, headers={"Idempotency-Key": "k"}) for _ in range(2)
        ]
        assert (first.status, second.body) == (200, first.body)
        left = (await edge.ask("GET", "/v1/models")).headers["x-ratelimit-remaining-tokens"]
        assert (left, len(edge.translator.turns)) == (str(PLENTY - 5), 1)


async def test_response_that_is_not_stored_is_charged() -> None:
    async with running_edge(tokens_per_minute=PLENTY, clock=ManualClock()) as edge:
        assert (await edge.create(store=False)).headers["x-ratelimit-remaining-tokens"] == str(PLENTY - 5)


async def running(edge: RunningEdge, count: int, **members: Any) -> list[asyncio.Task[Any]]:
    """Starts so many responses, which do not end."""
    edge.translator.hang = True
    asking = [asyncio.create_task(edge.create(**members)) for _ in range(count)]
    await until(lambda: len(edge.translator.turns) >= count, "the turns")
    return asking


async def leave(edge: RunningEdge, asking: list[asyncio.Task[Any]]) -> None:
    for task in asking:
        task.cancel()
    await asyncio.gather(*asking, return_exceptions=True)
    await asyncio.wait_for(edge.translator.closed.wait(), 30)


@pytest.mark.parametrize("stream", [False, True])
async def test_response_without_a_free_stream_slot_is_rejected(stream: bool) -> None:
    async with running_edge(streams_per_tenant=2) as edge:
        asking = await running(edge, 2, stream=stream)
        answer = await edge.create()
        assert (answer.status, answer.error["code"], answer.headers["retry-after"]) == (429, "rate_limit_exceeded", "1")
        assert (await edge.ask("GET", "/v1/models")).status == 200
        await leave(edge, asking[:1])
        edge.translator.hang = False
        async with asyncio.timeout(30):
            while (await edge.create()).status == 429:
                await asyncio.sleep(0.01)
        await leave(edge, asking)


async def test_background_response_holds_a_stream_slot_only_during_create() -> None:
    """The number of queued responses is limited by requests per minute alone."""
    async with running_edge(streams_per_tenant=1) as edge:
        for _ in range(3):
            answer = await edge.create(background=True)
            assert (answer.status, answer.json["status"]) == (200, "queued")


@pytest.mark.parametrize("stream", [False, True])
async def test_keyed_turn_keeps_its_stream_slot_after_a_client_disconnect(stream: bool) -> None:
    """A keyed turn continues without its client."""
    async with thinking_edges("Hello there.", streams_per_tenant=1) as edges:
        edges.engine.pause_at = 1
        body = {"model": "m", "input": "hi", "stream": stream}
        asking = asyncio.create_task(edges.http.ask("POST", "/v1/responses", body, headers={"Idempotency-Key": "k"}))
        await edges.engine.paused.wait()
        edges.engine.pause_at = None  # the next turns do not pause
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        for _ in range(10):
            await asyncio.sleep(0.02)
            assert (await edges.http.create(model="m", input="something else")).status == 429
        assert (len(edges.engine.requests), edges.engine.stopped.is_set()) == (1, False)
        edges.engine.go.set()
        async with asyncio.timeout(WAIT_MAX_S):
            while (await edges.http.create(model="m", input="something else")).status == 429:
                await asyncio.sleep(0.01)


async def test_limits_are_each_tenants_own(tmp_path: Path) -> None:
    files = KeyFiles(tmp_path)
    acme, globex = files.make("acme"), files.make("globex")
    body = dumps({"model": "m", "input": "hi"})
    async with running_edge(requests_per_minute=1, **files.settings) as edge:
        outcomes = [
            (await edge.ask("POST", "/v1/responses", body, headers=bearer(key))).status
            for key in (acme, acme, globex, globex)
        ]
        assert outcomes == [200, 429, 200, 429]
        unknown = await edge.ask("GET", "/v1/models")
        assert (unknown.status, quota_headers(unknown.headers)) == (401, {})


async def test_cancel_request_is_never_rate_limited() -> None:
    async with running_edge(requests_per_minute=1) as edge:
        await edge.ask("GET", "/v1/models")
        for _ in range(3):
            assert (await edge.ask("POST", f"/v1/responses/resp_{'0' * 48}/cancel")).status != 429


async def test_stream_read_and_websocket_without_a_free_slot_are_rejected() -> None:
    async with running_edge(streams_per_tenant=1) as edge:
        asking = await running(edge, 1, stream=True)
        for path, headers in (
            ("/v1/responses/x?stream=true", {}),
            ("/v1/responses", {"Upgrade": "websocket", "Connection": "Upgrade"}),
        ):
            assert (await edge.ask("GET", path, headers=headers)).status == 429
        await leave(edge, asking)


async def test_requests_and_slots_of_other_edges_count() -> None:
    async with running_edge(requests_per_minute=3, streams_per_tenant=2, clock=ManualClock()) as edge:
        await edge.store.take_quota(
            "default", QuotaRequest([Draw("requests", 1, 1, 3, 3)], Hold(["elsewhere"], 30_000))
        )
        asking = await running(edge, 1)
        answer = await edge.create()
        assert (answer.status, "in progress at once: Limit 2" in answer.error["message"]) == (429, True)
        assert answer.headers["x-ratelimit-remaining-requests"] == "1"
        statuses = [(await edge.ask("GET", "/v1/models")).status for _ in range(2)]
        assert statuses == [200, 429]
        await leave(edge, asking)


async def test_unstored_turn_is_answered_and_limited_while_the_store_is_away() -> None:
    async with running_edge(requests_per_minute=4, streams_per_tenant=2, replicas=2, clock=ManualClock()) as edge:
        await edge.backend.close()
        answers = [await edge.create(store=False) for _ in range(3)]
        assert [answer.status for answer in answers] == [200, 200, 429]
        assert answers[0].headers["x-ratelimit-limit-requests"] == "2"


async def test_edge_without_shared_limits_counts_its_share_alone() -> None:
    async with running_edge(requests_per_minute=4, replicas=2, shared_limits=False, clock=ManualClock()) as edge:
        assert [(await edge.create()).status for _ in range(3)] == [200, 200, 429]
        assert (await edge.store.take_quota("default", QuotaRequest([Draw("requests")]))).levels == ()


async def test_a_response_without_usage_costs_nothing() -> None:
    async with running_edge(tokens_per_minute=5) as edge:
        edge.translator.fault = ZeroDivisionError()
        for _ in range(3):
            assert (await edge.create(stream=True)).events[-1]["type"] == "response.failed"
        assert (await edge.create(stream=True)).headers["x-ratelimit-remaining-tokens"] == "5"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0ms"), (0.12, "120ms"), (1, "1s"), (8.64, "8.64s"), (59.9996, "1m0s"), (90.5, "1m30.5s"), (360, "6m0s")],
)
def test_duration_has_openais_format(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_rate_limiter_is_stored_in_the_application() -> None:
    """WebSocket handlers take the limiter from the application for each response."""
    from antiphon_core.ids import RandomIds
    from antiphon_edge.quotas import admission
    from antiphon_edge.quotas.counting import OwnShare
    from antiphon_edge.quotas.rate_limits import RateLimiter, RateLimits

    app, clock = web.Application(), ManualClock()
    counting = RateLimiter(RateLimits(), OwnShare(1, clock), clock=clock, ids=RandomIds())
    admission.set_limiter(app, counting)
    assert app[admission._LIMITER] is counting
