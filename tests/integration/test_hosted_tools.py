"""Hosted tools that the operator drops: the response names them in a member and in a header."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from openai import AsyncOpenAI

from antiphon_core.jsons import Object, dumps, loads
from antiphon_edge.http.dropped_tools import HEADER
from tests.support.scripted_answers import LINE
from tests.support.scripted_system import MODEL, ScriptedSystem, scripted_system

SEARCH: Any = {"type": "web_search", "external_web_access": True}
DEFERRED: Object = {"type": "function", "name": "f", "parameters": {}, "defer_loading": True}


@pytest.fixture
async def system() -> AsyncIterator[ScriptedSystem]:
    async with scripted_system(hosted_tools="drop") as running:
        yield running


async def test_the_sdk_reads_the_dropped_tools(system: ScriptedSystem) -> None:
    async with AsyncOpenAI(base_url=f"{system.url}/v1", api_key="none", max_retries=0) as sdk:
        raw = await sdk.responses.with_raw_response.create(
            model=MODEL, input="Hi", tools=[SEARCH, {"type": "tool_search"}, SEARCH]
        )
        response = raw.parse()
    assert response.output_text == LINE
    assert raw.headers[HEADER] == "web_search, tool_search"
    assert (response.tools, response.model_extra) == ([], {"dropped_tools": ["web_search", "tool_search"]} | EXTRA)
    stored = (await system.http.get(f"/v1/responses/{response.id}")).json
    assert stored["dropped_tools"] == ["web_search", "tool_search"]


EXTRA = {"presence_penalty": 0.0, "frequency_penalty": 0.0, "store": True}
"""Members that the SDK's type lacks."""


async def test_tools_of_items_are_dropped_and_deferred_ones_shown(system: ScriptedSystem) -> None:
    brought = {"type": "additional_tools", "role": "developer", "tools": [SEARCH, DEFERRED]}
    answer = await system.http.create(model=MODEL, input=[brought, {"role": "user", "content": "Hi"}])
    assert (answer.json["output"][0]["name"], answer.headers[HEADER]) == ("f", "web_search")


async def test_a_stream_names_dropped_tools_from_its_first_event(system: ScriptedSystem) -> None:
    answer = await system.http.create(model=MODEL, input="Hi", tools=[SEARCH], stream=True)
    assert answer.headers[HEADER] == "web_search"
    assert answer.events[0]["response"]["dropped_tools"] == ["web_search"]


async def test_a_websocket_response_names_dropped_tools(system: ScriptedSystem) -> None:
    async with system.http.session.ws_connect(system.url + "/v1/responses") as socket:
        body = {"type": "response.create", "model": MODEL, "input": "Hi", "tools": [SEARCH]}
        await socket.send_str(dumps(body).decode())
        created = loads((await socket.receive_str()).encode())
    assert created["response"]["dropped_tools"] == ["web_search"]


async def test_a_response_without_hosted_tools_names_no_dropped_tools(system: ScriptedSystem) -> None:
    answer = await system.http.create(model=MODEL, input="Hi")
    assert HEADER not in answer.headers
    assert "dropped_tools" not in answer.json


async def test_a_choice_of_a_dropped_tool_is_refused(system: ScriptedSystem) -> None:
    for choice in ("required", {"type": "web_search_preview"}):
        answer = await system.http.create(model=MODEL, input="Hi", tools=[SEARCH], tool_choice=choice)
        assert (answer.status, answer.error["param"]) == (400, "tool_choice")
