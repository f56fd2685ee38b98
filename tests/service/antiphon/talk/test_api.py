from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from antiphon.talk.api import Api
from antiphon.talk.errors import ApiError


@pytest.fixture
async def server(base_url: str) -> AsyncIterator[Api]:
    async with Api.open(base_url) as opened:
        yield opened


async def test_models_returns_the_served_models(server: Api) -> None:
    assert await server.models() == ["m", "seer"]


async def test_events_are_numbered_and_end_with_completed(server: Api) -> None:
    events = [event async for event in server.events({"model": "m", "input": "Hi"})]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert events[-1]["type"] == "response.completed"


async def test_a_tree_is_read_page_by_page(server: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    root = await server.post("/responses", {"model": "m", "input": "Hi"})
    for _ in range(3):
        await server.post("/responses", {"model": "m", "input": "Hi", "previous_response_id": root["id"]})
    pages: list[str] = []
    get = server.get

    async def two_at_a_time(path: str, **parameters: str) -> dict[str, object]:
        pages.append(path)
        return await get(path, **{**parameters, "limit": "2"})

    monkeypatch.setattr(server, "get", two_at_a_time)
    nodes = await server.nodes(root["id"], from_root=True)
    assert [node["depth"] for node in nodes] == [0, 1, 1, 1]
    assert len(pages) == 2


async def test_an_api_error_has_the_message_status_and_code_of_the_server(server: Api) -> None:
    with pytest.raises(ApiError, match="The model 'none'") as raised:
        await server.post("/responses", {"model": "none", "input": "Hi"})
    assert (raised.value.status, raised.value.code) == (404, "model_not_found")


async def test_an_unreachable_server_is_named_in_the_error() -> None:
    async with Api.open("http://127.0.0.1:9/v1") as nobody:
        with pytest.raises(ApiError, match="http://127.0.0.1:9/v1 does not answer") as raised:
            await nobody.models()
    assert raised.value.status == 0


async def test_the_api_key_of_the_environment_is_sent_as_bearer_token(base_url: str) -> None:
    async with Api.open(base_url, {"OPENAI_API_KEY": "ak_secret"}) as server:
        assert server._session.headers["Authorization"] == "Bearer ak_secret"


async def test_an_event_without_a_type_is_skipped() -> None:
    async def stream(_request: web.Request) -> web.Response:
        text = 'data: {"ping": 1}\n\ndata: still here\n\ndata: {"type": "response.created"}\n\ndata: [DONE]\n\n'
        return web.Response(text=text, content_type="text/event-stream")

    application = web.Application()
    application.router.add_post("/v1/responses", stream)
    async with TestServer(application) as other, Api.open(str(other.make_url("/v1"))) as server:
        assert [event async for event in server.events({})] == [{"type": "response.created"}]


async def test_a_text_that_is_not_unicode_is_an_error_of_the_request(server: Api) -> None:
    body = {"model": "m", "input": "a\udcff"}
    with pytest.raises(ApiError, match="not valid UTF-8"):
        await server.post("/responses", body)
    with pytest.raises(ApiError, match="not valid UTF-8"):
        [event async for event in server.events(body)]


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "localhost/v1", "ftp://127.0.0.1/v1", "http://h:99999/v1"])
async def test_base_url_that_is_no_http_url_is_an_error_with_an_example(url: str) -> None:
    async with Api.open(url) as server:
        with pytest.raises(ApiError) as caught:
            await server.models()
    assert str(caught.value) == f"{url} is no URL of a server, such as http://127.0.0.1:8000/v1."
