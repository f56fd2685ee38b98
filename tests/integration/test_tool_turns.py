"""A conversation with tools through edge, store and translator, with a scripted model."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from antiphon_core.jsons import Object, dumps, loads
from antiphon_translator.engines.scripted import Emit, ScriptedEngine
from tests.support.http import Http
from tests.support.in_process import running
from tests.support.prompts import ids_in
from tests.support.reasoning_model import CALL, END_ID, TOKENIZER, WEATHER, reasoning_model
from tests.support.schema import validate_response
from tests.support.small_vocabulary import ids_of


class Talk:
    """A server whose model generates the given text."""

    def __init__(self, http: Http, engine: ScriptedEngine) -> None:
        self.http = http
        self.engine = engine

    async def turn(self, *said: str, **request: Any) -> Object:
        self.engine.script = [Emit([token_id]) for token_id in (*ids_of(TOKENIZER, *said), END_ID)]
        answer = await self.http.create(**({"model": "m"} | request))
        assert answer.status == 200, answer.body
        response: Object = loads(answer.body)
        validate_response(response)
        return response

    @property
    def prompt(self) -> str:
        """The last prompt that the model read."""
        return TOKENIZER.decode(ids_in(self.engine.requests[-1]))


@pytest.fixture
async def talk() -> AsyncIterator[Talk]:
    engine = ScriptedEngine([])
    async with running((reasoning_model(), engine)) as system:
        yield Talk(system.http, engine)


async def test_a_turn_continues_with_the_result_of_its_tool_call(talk: Talk) -> None:
    first = await talk.turn("<think>", "Hm.", "</think>", "I look.", *CALL, input="Rome?", tools=[WEATHER])
    assert [item["type"] for item in first["output"]] == ["reasoning", "message", "function_call"]
    call = first["output"][-1]
    result = {"type": "function_call_output", "call_id": call["call_id"], "output": "Sunny."}
    second = await talk.turn("It is sunny.", input=[result], tools=[WEATHER], previous_response_id=first["id"])
    assert [item["type"] for item in second["output"]] == ["message"]
    assert '<tool_call>{"name": "get_weather", "arguments": {"city": "Rome"}}</tool_call>' in talk.prompt
    assert "<|im_start|>tool\nSunny.<|im_end|>" in talk.prompt


async def test_a_tool_result_without_its_call_is_rejected(talk: Talk) -> None:
    result = {"type": "function_call_output", "call_id": "call_9", "output": "Sunny."}
    answer = await talk.http.create(model="m", input=[result], tools=[WEATHER])
    assert answer.status == 400
    assert loads(answer.body)["error"]["message"].startswith("No tool call found")


async def test_a_call_without_its_result_is_refused(talk: Talk) -> None:
    first = await talk.turn(*CALL, input="Rome?", tools=[WEATHER])
    answer = await talk.http.create(model="m", input="And?", tools=[WEATHER], previous_response_id=first["id"])
    assert answer.status == 400
    assert loads(answer.body)["error"]["message"].startswith("No tool output found")


DEEP = '{"city": ' + "[" * 500 + "]" * 500 + "}"


@pytest.mark.parametrize("arguments", ['{"city": ', "Rome", DEEP], ids=["cut off", "no JSON", "deep"])
async def test_a_call_with_invalid_arguments_can_be_continued(talk: Talk, arguments: str) -> None:
    written = ("<tool_call>", '{"name": "get_weather", "arguments": ' + arguments + "}", "</tool_call>")
    first = await talk.turn(*written, input="Rome?", tools=[WEATHER])
    call = {"type": "function_call", "call_id": "c", "name": "get_weather", "arguments": arguments}
    result = {"type": "function_call_output", "call_id": "c", "output": "That is no JSON."}
    replayed = await talk.turn("I see.", input=[{"role": "user", "content": "Rome?"}, call, result])
    assert replayed["status"] == "completed"
    assert f'"INVALID_JSON": {dumps(arguments).decode()}' in talk.prompt
    for item in first["output"]:
        if item["type"] == "function_call":
            answer = [result | {"call_id": item["call_id"]}]
            told = await talk.turn("I see.", input=answer, previous_response_id=first["id"])
            assert told["status"] == "completed"


async def test_a_conversation_with_an_invalid_call_can_be_continued(talk: Talk) -> None:
    items = [
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": DEEP},
        {"type": "function_call_output", "call_id": "c", "output": "No."},
    ]
    conversation = (await talk.http.post("/v1/conversations", {})).json["id"]
    assert (await talk.http.post(f"/v1/conversations/{conversation}/items", {"items": items})).status == 200
    assert (await talk.turn("Hi.", input="Go on.", conversation=conversation))["status"] == "completed"


async def test_tools_are_echoed_with_all_members(talk: Talk) -> None:
    response = await talk.turn("Hi.", input="Hi", tools=[{"type": "function", "name": "f"}])
    assert response["tools"] == [
        {"type": "function", "name": "f", "description": None, "parameters": None, "strict": None}
    ]
