from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from antiphon_core.limits import HEADER_BYTES_MAX
from antiphon_edge.console.assets import assets
from tests.support.api_keys import KeyFiles
from tests.support.edge import RunningEdge, running_edge
from tests.support.http import Answer
from tests.support.raw_http import exchange, post

PAGE, OTHER = "https://app.example.com", "https://evil.example.com"
LONG_HEADER = b"x-note: " + b"x" * (HEADER_BYTES_MAX + 1)
SDK_HEADERS = "authorization,content-type,x-stainless-lang,x-stainless-retry-count"


@pytest.fixture
async def edge(tmp_path: Path) -> AsyncIterator[RunningEdge]:
    files = KeyFiles(tmp_path)
    files.make("acme")
    async with running_edge(cors_origins=(PAGE, "http://localhost:5173"), **files.settings) as running:
        yield running


async def preflight(edge: RunningEdge, origin: str, path: str = "/v1/responses", **headers: str) -> Answer:
    asked = {"Origin": origin, "Access-Control-Request-Method": "POST", **headers}
    return await edge.ask("OPTIONS", path, headers=asked)


def cors_headers(answer: Answer) -> set[str]:
    return {name for name in answer.headers if name.startswith("access-control-")}


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/responses/resp_x", "/v1/health/live"])
async def test_a_preflight_needs_no_key(edge: RunningEdge, path: str) -> None:
    answer = await preflight(edge, PAGE, path, **{"Access-Control-Request-Headers": SDK_HEADERS})
    assert (answer.status, answer.body) == (204, b"")
    assert answer.headers["access-control-allow-origin"] == PAGE
    assert answer.headers["access-control-allow-headers"] == SDK_HEADERS
    assert "POST" in answer.headers["access-control-allow-methods"]
    assert int(answer.headers["access-control-max-age"]) > 0
    assert "Origin" in answer.headers["vary"]
    assert "access-control-allow-credentials" not in answer.headers


async def test_preflight_from_another_origin_is_rejected_with_the_reason(edge: RunningEdge) -> None:
    for origin in (OTHER, "null", PAGE + ".evil.example", "http://app.example.com"):
        answer = await preflight(edge, origin)
        assert (answer.status, answer.error["code"]) == (403, "origin_refused")
        assert cors_headers(answer) == set()


@pytest.mark.parametrize("asked", ["", "two words", "x" * 5_000, "a,,b"])
async def test_preflight_does_not_allow_invalid_header_names(edge: RunningEdge, asked: str) -> None:
    answer = await preflight(edge, PAGE, **{"Access-Control-Request-Headers": asked})
    assert answer.status == 204
    assert "access-control-allow-headers" not in answer.headers


async def test_allowed_origins_can_read_answers_and_rejections(edge: RunningEdge) -> None:
    for path, status in (("/v1/health/live", 200), ("/v1/models", 401), ("/v1/nowhere", 401)):
        answer = await edge.ask("GET", path, headers={"Origin": PAGE})
        assert answer.status == status
        assert answer.headers["access-control-allow-origin"] == PAGE
        exposed = answer.headers["access-control-expose-headers"].split(", ")
        assert {"x-request-id", "retry-after", "x-ratelimit-remaining-tokens"} <= set(exposed)
    other = await edge.ask("GET", "/v1/models", headers={"Origin": OTHER})
    assert cors_headers(other) == set()
    assert "Origin" in other.headers["vary"]


async def test_allowed_origins_can_read_every_header_that_antiphon_adds(edge: RunningEdge) -> None:
    standard = {"content-type", "content-length", "date", "server", "vary", "cache-control", "www-authenticate"}
    standard |= {"x-content-type-options"}  # for browsers, not for pages
    for path in ("/v1/health/live", "/v1/models"):
        answer = await edge.ask("GET", path, headers={"Origin": PAGE})
        exposed = answer.headers["access-control-expose-headers"].lower().split(", ")
        added = {name.lower() for name in answer.headers if not name.lower().startswith("access-control-")} - standard
        assert added <= set(exposed)


async def test_allowed_origin_can_read_a_stream() -> None:
    async with running_edge(cors_origins=(PAGE,)) as edge:
        body = b'{"model": "m", "input": "hi", "stream": true}'
        answer = await edge.ask("POST", "/v1/responses", body, headers={"Origin": PAGE})
        assert answer.headers["access-control-allow-origin"] == PAGE
        assert answer.events[-1]["type"] == "response.completed"


async def test_star_allows_every_origin() -> None:
    async with running_edge(cors_origins=("*",)) as edge:
        answer = await preflight(edge, OTHER)
        assert (answer.status, answer.headers["access-control-allow-origin"]) == (204, "*")
        assert "vary" not in answer.headers


async def test_without_origins_there_is_no_cors() -> None:
    async with running_edge() as edge:
        answer = await preflight(edge, PAGE)
        assert (answer.status, answer.error["code"]) == (405, "method_not_allowed")
        assert cors_headers(await edge.ask("GET", "/v1/models", headers={"Origin": PAGE})) == set()


async def test_options_request_that_is_no_preflight_needs_a_key(edge: RunningEdge) -> None:
    assert (await edge.ask("OPTIONS", "/v1/responses", headers={"Origin": PAGE})).status == 401


async def test_every_origin_can_read_the_rejection_of_an_unreadable_request(edge: RunningEdge) -> None:
    """The origin was unreadable, too. The answer contains no data of any tenant."""
    answer = await exchange(edge.server.url, post(b"{}", LONG_HEADER))
    assert (answer.status, answer.headers["access-control-allow-origin"]) == (431, "*")
    assert "x-request-id" in answer.headers["access-control-expose-headers"]


async def test_allowed_origins_can_read_a_rejection_before_routing(edge: RunningEdge) -> None:
    for origin, allowed in ((PAGE, PAGE), (OTHER, None)):
        answer = await exchange(edge.server.url, post(b"{}", b"Expect: miracles", b"Origin: " + origin.encode()))
        assert (answer.status, answer.headers.get("access-control-allow-origin")) == (417, allowed)
        assert answer.headers["vary"] == "Origin"


async def test_rejections_have_no_cors_headers_without_allowed_origins() -> None:
    async with running_edge() as edge:
        for wrong, status in ((b"Expect: miracles", 417), (LONG_HEADER, 431)):
            answer = await exchange(edge.server.url, post(b"{}", wrong, b"Origin: " + PAGE.encode()))
            assert answer.status == status
            assert {"access-control-allow-origin", "vary"}.isdisjoint(answer.headers)


async def test_a_compressed_file_varies_by_encoding_and_origin(edge: RunningEdge) -> None:
    answer = await edge.ask("GET", f"/console/{assets().version}/app.js", headers={"Origin": PAGE})
    assert (answer.status, answer.headers["vary"]) == (200, "Accept-Encoding, Origin")


async def test_a_page_can_read_which_tools_were_dropped() -> None:
    body = {"model": "m", "input": "hi", "tools": [{"type": "web_search"}]}
    async with running_edge(cors_origins=(PAGE,), hosted_tools="drop") as edge:
        answer = await edge.ask("POST", "/v1/responses/input_tokens", body, headers={"Origin": PAGE})
    assert answer.headers["x-antiphon-dropped-tools"] == "web_search"
    assert "x-antiphon-dropped-tools" in answer.headers["access-control-expose-headers"].split(", ")
