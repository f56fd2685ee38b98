"""A search for tools that the client runs, through the official SDK: the model calls the search, the client lists what
it has found, and later turns can call the listed tools."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from openai import AsyncOpenAI
from openai.types.responses import ResponseFunctionToolCall, ResponseToolSearchCall, ResponseToolSearchOutputItem

from antiphon_core.fold import fold
from antiphon_core.jsons import Object, dumps
from tests.support.fake_chat import delta, ending
from tests.support.scripted_answers import ARGUMENTS
from tests.support.scripted_system import MODEL, ScriptedSystem, scripted_system
from tests.support.templated_system import by_chat

GOAL = {"type": "object", "properties": {"goal": {"type": "string"}}, "required": ["goal"]}
SEARCH: Any = {"type": "tool_search", "execution": "client", "description": "Finds shop tools.", "parameters": GOAL}
ETA: Any = {"type": "function", "name": "get_eta", "parameters": {"type": "object"}, "defer_loading": True}
CRM: Any = {"type": "namespace", "name": "crm", "description": "Customers.", "tools": [ETA]}
USER: Any = {"role": "user", "content": "When does it come?"}
CALL: Object = {"type": "tool_search_call", "call_id": "s", "execution": "client", "arguments": {"goal": "ETA"}}
TOLD = 'I was told: {"tools":["get_eta"]}'


def found(*tools: Any, call_id: str | None = "s", **members: Any) -> Any:
    named = {"type": "tool_search_output", "call_id": call_id, "tools": list(tools)}
    return named | {"execution": "client", "status": "completed"} | members


@pytest.fixture
async def system(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ScriptedSystem]:
    monkeypatch.setitem(ARGUMENTS, "tool_search", {"goal": "ETA", "limit": None})
    async with scripted_system() as running:
        yield running


@pytest.fixture
async def sdk(system: ScriptedSystem) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=f"{system.url}/v1", api_key="none", max_retries=0) as client:
        yield client


async def searched(sdk: AsyncOpenAI, **members: Any) -> tuple[str, ResponseToolSearchCall]:
    """The id of a response that calls the search, and its call."""
    begun = await sdk.responses.create(model=MODEL, input=[USER], tools=[SEARCH], **members)
    (call,) = begun.output
    assert isinstance(call, ResponseToolSearchCall)
    return begun.id, call


async def test_a_search_is_called_by_the_model_and_run_by_the_client(system: ScriptedSystem, sdk: AsyncOpenAI) -> None:
    response_id, call = await searched(sdk)
    assert (call.execution, call.status, call.arguments) == ("client", "completed", {"goal": "ETA", "limit": None})
    assert (call.id[:4], bool(call.call_id)) == ("tsc_", True)
    for shown in ('"name": "tool_search"', "Finds shop tools.", dumps(GOAL).decode()):
        assert shown.replace(" ", "") in system.model.prompts[-1].replace(" ", "")
    output = found(ETA, call_id=call.call_id)
    told = await sdk.responses.create(model=MODEL, input=[output], previous_response_id=response_id, tools=[SEARCH])
    assert told.output_text == TOLD
    assert '"goal": "ETA"' in system.model.prompts[-1]


async def test_found_tools_can_be_called_in_every_later_turn(sdk: AsyncOpenAI) -> None:
    response_id, call = await searched(sdk)
    for given in ([found(ETA, call_id=call.call_id), USER], [USER]):
        ended = await sdk.responses.create(model=MODEL, input=given, previous_response_id=response_id)
        (called,) = ended.output
        assert isinstance(called, ResponseFunctionToolCall)
        assert called.name == "get_eta"
        result: Any = {"type": "function_call_output", "call_id": called.call_id, "output": "Soon."}
        response_id = (await sdk.responses.create(model=MODEL, input=[result], previous_response_id=ended.id)).id


async def test_a_conversation_keeps_a_search_and_its_tools(sdk: AsyncOpenAI) -> None:
    conversation = (await sdk.conversations.create()).id
    _, call = await searched(sdk, conversation=conversation)
    output = found(ETA, call_id=call.call_id)
    told = await sdk.responses.create(model=MODEL, input=[output], conversation=conversation)
    assert told.output_text == TOLD
    called = await sdk.responses.create(model=MODEL, input=[USER], conversation=conversation)
    assert called.output[0].type == "function_call"
    items = [item async for item in sdk.conversations.items.list(conversation, order="asc")]
    assert [item.type for item in items[1:3]] == ["tool_search_call", "tool_search_output"]
    listed = items[2]
    assert isinstance(listed, ResponseToolSearchOutputItem)
    assert (listed.id[:4], listed.tools[0].type) == ("tso_", "function")


async def test_a_stateless_client_sends_the_search_back(sdk: AsyncOpenAI) -> None:
    _, call = await searched(sdk, store=False)
    given: Any = [USER, call.model_dump(), found(ETA, call_id=call.call_id)]
    told = await sdk.responses.create(model=MODEL, input=given, store=False)
    assert told.output_text == TOLD


async def test_a_found_namespace_is_called_by_name_and_namespace(sdk: AsyncOpenAI) -> None:
    response_id, call = await searched(sdk)
    output = found(CRM, call_id=call.call_id)
    ended = await sdk.responses.create(model=MODEL, input=[output, USER], previous_response_id=response_id)
    (called,) = ended.output
    assert isinstance(called, ResponseFunctionToolCall)
    assert (called.name, called.namespace) == ("get_eta", "crm")
    told = await sdk.responses.create(model=MODEL, input=[output], previous_response_id=response_id)
    assert told.output_text == 'I was told: {"tools":["crm__get_eta"]}'


async def test_a_stream_sends_a_search_when_it_is_complete(system: ScriptedSystem, sdk: AsyncOpenAI) -> None:
    stream = await sdk.responses.create(model=MODEL, input=[USER], tools=[SEARCH], stream=True)
    received = [event async for event in stream]
    added, done = received[2:4]
    assert added.type == "response.output_item.added"
    assert done.type == "response.output_item.done"
    assert isinstance(done.item, ResponseToolSearchCall)
    assert (done.item.status, done.item.arguments) == ("completed", {"goal": "ETA", "limit": None})
    assert [event.type for event in received[4:]] == ["response.completed"]
    log = (await system.http.create(model=MODEL, input=[USER], tools=[SEARCH], stream=True)).events
    assert fold(log) == log[-1]["response"]


async def test_a_deferred_tool_is_shown_when_a_search_has_found_it(system: ScriptedSystem) -> None:
    begun = await system.http.create(model=MODEL, input=[USER], tools=[ETA, CRM, SEARCH])
    assert (begun.json["output"][0]["type"], begun.json["tools"][-1]) == ("tool_search_call", SEARCH)
    assert "get_eta" not in system.model.prompts[-1]
    chosen = {"type": "function", "name": "get_eta"}
    early = await system.http.create(model=MODEL, input=[USER], tools=[ETA, SEARCH], tool_choice=chosen)
    assert (early.status, early.error["param"]) == (400, "tool_choice")
    given = [USER, CALL, found(ETA), USER]
    called = await system.http.create(model=MODEL, input=given, tools=[ETA, CRM, SEARCH], tool_choice=chosen)
    assert called.json["output"][0]["name"] == "get_eta"
    assert "crm__get_eta" not in system.model.prompts[-1]


async def test_a_search_beside_a_function_call_needs_both_outputs(system: ScriptedSystem) -> None:
    function = {"type": "function_call", "call_id": "f", "name": "get_time", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "f", "output": "Noon."}
    told = await system.http.create(model=MODEL, input=[USER, function, CALL, found(ETA), output])
    assert told.json["output"][0]["content"][0]["text"] == TOLD
    without = await system.http.create(model=MODEL, input=[USER, function, CALL, output])
    assert (without.status, without.error["message"]) == (400, "No tool output found for function call s.")


async def test_searches_may_find_a_tool_again_with_another_definition(system: ScriptedSystem) -> None:
    second = CALL | {"call_id": "t"}
    other = CRM | {"tools": [ETA | {"description": "Another one."}]}
    history = [USER, CALL, found(ETA, CRM), second]
    again = await system.http.create(model=MODEL, input=[*history, found(CRM, ETA, call_id="t"), USER])
    assert [item["name"] for item in again.json["output"]] == ["get_eta"]
    changed = await system.http.create(model=MODEL, input=[*history, found(other, call_id="t"), USER])
    assert [item["name"] for item in changed.json["output"]] == ["get_eta"]
    assert "Another one." in system.model.prompts[-1]


@pytest.mark.parametrize("execution", [{"execution": None}, {"execution": "client"}])
async def test_an_output_is_that_of_the_call_that_it_names(system: ScriptedSystem, execution: Object) -> None:
    told = await system.http.create(model=MODEL, input=[USER, CALL, found(ETA, **execution)])
    assert told.json["output"][0]["content"][0]["text"] == TOLD


async def test_a_search_that_a_server_ran_is_history_and_its_tools_can_be_called(system: ScriptedSystem) -> None:
    ran: Object = {"execution": "server", "call_id": None}
    called = await system.http.create(
        model=MODEL, input=[USER, CALL | ran | {"arguments": {"paths": ["crm"]}}, found(CRM, **ran), USER]
    )
    assert (called.json["output"][0]["name"], called.json["output"][0]["namespace"]) == ("get_eta", "crm")
    assert "paths" not in system.model.prompts[-1]


@pytest.mark.parametrize("mode", ["named", "allowed"])
async def test_a_tool_choice_can_force_a_search(system: ScriptedSystem, mode: str) -> None:
    allowed = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "tool_search"}]}
    choice = {"type": "tool_search"} if mode == "named" else allowed
    answer = await system.http.create(model=MODEL, input=[USER], tools=[SEARCH], tool_choice=choice)
    assert (answer.json["output"][0]["type"], answer.json["tool_choice"]) == ("tool_search_call", choice)
    absent = await system.http.create(model=MODEL, input=[USER], tool_choice=choice)
    assert (absent.status, absent.error["param"].startswith("tool_choice")) == (400, True)


@pytest.mark.parametrize("execution", [{}, {"execution": "server"}, {"execution": None}])
async def test_a_search_by_the_server_is_a_hosted_tool(system: ScriptedSystem, execution: Object) -> None:
    tool = {"type": "tool_search", **execution}
    answer = await system.http.create(model=MODEL, input=[USER], tools=[tool])
    assert (answer.status, answer.error["code"], answer.error["param"]) == (400, "unsupported_value", "tools[0]")
    assert "Set its 'execution' to 'client'" in answer.error["message"]


@pytest.mark.parametrize(
    ("members", "param"),
    [
        ({"tools": [SEARCH | {"execution": "both"}]}, "tools[0].execution"),
        ({"tools": [SEARCH | {"parameters": "goal"}]}, "tools[0].parameters"),
        ({"tools": [SEARCH | {"parameters": {"type": "strnig"}}]}, "tools[0].parameters"),
        ({"tools": [SEARCH | {"description": 5}]}, "tools[0].description"),
        ({"tools": [SEARCH, SEARCH]}, "tools[1]"),
        ({"tools": [ETA]}, "tools[0].defer_loading"),
        ({"tools": [CRM]}, "tools[0].tools[0].defer_loading"),
        ({"input": [{"type": "additional_tools", "tools": [ETA]}, USER]}, "input[0].tools[0].defer_loading"),
        ({"input": [CALL | {"arguments": "{}"}, found(ETA)]}, "input[0].arguments"),
        ({"input": [CALL | {"call_id": None}, found(ETA)]}, "input[0].call_id"),
        ({"input": [CALL | {"execution": "both"}, found(ETA)]}, "input[0].execution"),
        ({"input": [CALL, found(ETA, tools=None)]}, "input[1].tools"),
        ({"input": [CALL, found(ETA, call_id=None)]}, "input[1].call_id"),
        ({"input": [CALL, found({"type": "function"})]}, "input[1].tools[0].name"),
        ({"input": [CALL, found({"type": "web_search"})]}, "input[1].tools[0]"),
        ({"input": [found(ETA), USER]}, "input"),
    ],
)
async def test_an_invalid_search_is_rejected_with_its_path(system: ScriptedSystem, members: Object, param: str) -> None:
    answer = await system.http.create(**{"model": MODEL, "input": [USER], **members})
    assert (answer.status, answer.error["param"]) == (400, param)


async def test_a_chat_server_searches_beside_other_calls_and_is_sent_what_was_found() -> None:
    async with by_chat("Qwen3.5-4B") as system:
        system.server.script = [_called(0, "get_time", "{}"), _called(1, "tool_search", '{"goal": "ETA"}')]
        system.server.script += ending("tool_calls")
        now = ETA | {"name": "get_time", "defer_loading": False}
        begun = await system.ask([USER], tools=[now, ETA, SEARCH])
        assert [item["type"] for item in begun["output"]] == ["function_call", "tool_search_call"]
        time = {"type": "function_call_output", "call_id": begun["output"][0]["call_id"], "output": "Noon."}
        outputs = [found(ETA, call_id=begun["output"][1]["call_id"]), time]
        system.server.script = [delta(content="Yes."), *ending()]
        await system.ask(outputs, previous_response_id=begun["id"], tools=[now, ETA, SEARCH])
    first, second = ([tool["function"]["name"] for tool in sent["tools"]] for sent in system.server.requests)
    assert (first, second) == (["get_time", "tool_search"], ["get_time", "tool_search", "get_eta"])
    results = [message["content"] for message in system.server.requests[1]["messages"] if message["role"] == "tool"]
    assert results == ["Noon.", '{"tools":["get_eta"]}']


def _called(index: int, name: str, arguments: str) -> bytes:
    function = {"name": name, "arguments": arguments}
    return delta(tool_calls=[{"index": index, "id": f"call_{name}", "type": "function", "function": function}])


async def test_arguments_that_are_no_object_become_an_incomplete_search(
    system: ScriptedSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ARGUMENTS, "tool_search", "ETA")
    answer = await system.http.create(model=MODEL, input=[USER], tools=[SEARCH])
    (call,) = answer.json["output"]
    assert (call["type"], call["status"], call["arguments"]) == ("tool_search_call", "incomplete", {})
    again = await system.http.create(model=MODEL, input=[USER], previous_response_id=answer.json["id"])
    assert again.status == 200


async def test_tools_that_were_found_before_a_compaction_can_be_called_after_it(system: ScriptedSystem) -> None:
    context = [USER, CALL, found(ETA), {"role": "assistant", "content": "Soon."}]
    compacted = (await system.http.post("/v1/responses/compact", {"model": MODEL, "input": context})).json
    kinds = ["message", "tool_search_call", "tool_search_output", "compaction"]
    assert [item["type"] for item in compacted["output"]] == kinds
    called = await system.http.create(model=MODEL, input=[*compacted["output"], USER])
    assert called.json["output"][0]["name"] == "get_eta"
