"""Responses that call tools of servers, over HTTP: for a caller that waits, in the background, and continued."""

from __future__ import annotations

import asyncio

from openai import AsyncOpenAI
from openai.types.responses import ResponseFunctionWebSearch, ResponseOutputMessage, ResponseOutputText
from openai.types.responses.response_function_web_search import ActionSearch
from openai.types.responses.response_output_text import AnnotationURLCitation

from antiphon_core.jsons import Object
from antiphon_core.ports.tools import ToolCall
from tests.support.in_process import running
from tests.support.served_models import model
from tests.support.server_tools import server
from tests.support.tool_turns import FakeTools, RoundsEngine, call

BUY = call("shop__buy")
TYPES = ["mcp_list_tools", "mcp_call", "message"]


def types_of(response: Object) -> list[str]:
    return [item["type"] for item in response["output"]]


async def test_a_response_is_continued_by_one_that_reads_its_calls() -> None:
    tools, engine = FakeTools(), RoundsEngine(BUY, "Bought.")
    async with running((model(), engine), tools=tools) as system:
        first = await system.create(tools=[server()])
        assert types_of(first) == TYPES
        assert first["tools"] == [server()]
        again = await system.create(previous_response_id=first["id"], tools=[server()])
        assert types_of(again) == ["message"]
    shown = engine.requests[-1].prompt.messages  # type: ignore[union-attr]
    assert [each["role"] for each in shown] == ["user", "assistant", "tool", "assistant", "user"]


async def test_a_background_response_calls_its_tools_once() -> None:
    tools = FakeTools()
    async with running((model(), RoundsEngine(BUY, "Bought.")), tools=tools, workers=1) as system:
        queued = await system.create(tools=[server()], background=True)
        followed = await system.http.get(f"/v1/responses/{queued['id']}?stream=true")
        assert b"response.completed" in followed.body
        ended = (await system.http.get(f"/v1/responses/{queued['id']}")).json
    assert (types_of(ended), len(tools.calls)) == (TYPES, 1)


async def test_calls_are_recorded_after_their_client_has_hung_up() -> None:
    tools, engine = FakeTools(), RoundsEngine(BUY)
    engine.waits_at = 1  # if the answer comes before the edge knows that its client has left
    answer = asyncio.Event()

    async def wait(_call: ToolCall) -> None:
        await answer.wait()

    tools.before_call = wait
    async with running((model(), engine), tools=tools) as system:
        async with system.http.stream(model="m", input="hi", tools=[server()]) as log:
            response_id = (await anext(log))["response"]["id"]
            async for event in log:
                if event["type"] == "response.mcp_call_arguments.done":
                    break
        answer.set()
        record = await system.http.ended(response_id)
    assert (record["status"], record["output"][1]["output"]) == ("cancelled", "Done.")


async def test_requests_that_cannot_be_served_are_rejected_by_name() -> None:
    async with running((model(), RoundsEngine("Hi.")), tools=FakeTools()) as system:
        secret = server(authorization="canary")
        refused = await system.http.create(model="m", input="hi", tools=[secret], background=True)
        assert (refused.status, refused.error["param"]) == (400, "tools[0].authorization")
        asking = server(require_approval="always")
        unasked = await system.http.create(model="m", input="hi", tools=[asking], store=False)
        assert (unasked.status, unasked.error["param"]) == (400, "tools[0].require_approval")
    async with running((model(), RoundsEngine("Hi."))) as system:
        refused = await system.http.create(model="m", input="hi", tools=[server()])
        assert (refused.status, refused.error["param"]) == (400, "tools[0]")


async def test_search_of_the_web_runs_where_the_operator_has_a_provider() -> None:
    """With the SDK of OpenAI, whose types have the search and its citations; Codex always sends the tool."""
    rounds = call("web_search", '{"query": "tea"}'), "Tea is a drink [1]."
    async with running(
        (model(), RoundsEngine(*rounds)), tools=FakeTools(), web_search=True, hosted_tools="drop"
    ) as system:
        async with AsyncOpenAI(base_url=f"{system.http.url}/v1", api_key="none", max_retries=0) as sdk:
            response = await sdk.responses.create(model="m", input="Tea?", tools=[{"type": "web_search"}])
        searched, answer = response.output
        assert isinstance(searched, ResponseFunctionWebSearch)
        assert isinstance(searched.action, ActionSearch)
        assert [source.url for source in searched.action.sources or ()] == ["https://example.com/a"]
        assert isinstance(answer, ResponseOutputMessage)
        (part,) = answer.content
        assert isinstance(part, ResponseOutputText)
        (citation,) = part.annotations
        assert isinstance(citation, AnnotationURLCitation)
        assert part.text[citation.start_index : citation.end_index] == "[1]"
        assert "dropped_tools" not in (response.model_extra or {})
