"""Asynchronous tools: a turn may end with a call whose output comes in any later turn, or in a concurrent one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from openai import AsyncOpenAI

from antiphon_core.jsons import Object
from antiphon_translator.prompt.rounds import LATE_OUTPUT_NOTE, PENDING
from tests.support.scripted_answers import LINE
from tests.support.scripted_system import MODEL, ScriptedSystem, scripted_system

TOOL: Any = {
    "type": "function",
    "name": "search",
    "description": "Searches for minutes.",
    "parameters": {"type": "object", "properties": {"q": {"type": "string"}}},
    "strict": False,
    "async": True,
}


@pytest.fixture
async def system() -> AsyncIterator[ScriptedSystem]:
    async with scripted_system() as running:
        yield running


@pytest.fixture
async def sdk(system: ScriptedSystem) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=f"{system.url}/v1", api_key="none", max_retries=0) as client:
        yield client


async def test_an_async_tool_output_two_turns_later_reaches_the_model(system: ScriptedSystem, sdk: AsyncOpenAI) -> None:
    begun = await sdk.responses.create(model=MODEL, input="Find it.", tools=[TOOL])
    (call,) = begun.output
    assert call.type == "function_call"
    assert (call.name, call.async_, call.status) == ("search", True, "completed")
    between = await sdk.responses.create(model=MODEL, input="And how are you?", previous_response_id=begun.id)
    assert between.output_text == LINE
    assert system.model.prompts[-1].endswith(
        f"<|im_start|>tool\n{PENDING}<|im_end|>\n<|im_start|>user\nAnd how are you?<|im_end|>\n<|im_start|>assistant\n"
    )
    output: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "42"}
    ended = await sdk.responses.create(model=MODEL, input=[output], previous_response_id=between.id)
    assert ended.status == "completed"
    note = LATE_OUTPUT_NOTE.format(call_id=call.call_id, name="search")
    assert f"<|im_start|>user\n{note}\n42<|im_end|>" in system.model.prompts[-1]


async def test_an_immediate_async_tool_output_is_an_ordinary_result(system: ScriptedSystem, sdk: AsyncOpenAI) -> None:
    begun = await sdk.responses.create(model=MODEL, input="Find it.", tools=[TOOL])
    call: Any = begun.output[0]
    output: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "42"}
    ended = await sdk.responses.create(model=MODEL, input=[output], previous_response_id=begun.id)
    assert ended.output_text == "I was told: 42"
    assert PENDING not in system.model.prompts[-1]


async def test_two_turns_behind_one_pending_call_both_succeed(system: ScriptedSystem, sdk: AsyncOpenAI) -> None:
    begun = await sdk.responses.create(model=MODEL, input="Find it.", tools=[TOOL])
    call: Any = begun.output[0]
    output: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "42"}
    told = await sdk.responses.create(model=MODEL, input=[output], previous_response_id=begun.id)
    asked = await sdk.responses.create(model=MODEL, input="And?", previous_response_id=begun.id)
    assert (told.output_text, asked.output_text) == ("I was told: 42", LINE)


async def test_an_unstored_request_can_carry_the_pending_call_itself(system: ScriptedSystem) -> None:
    call: Object = {"type": "function_call", "call_id": "c", "name": "search", "arguments": "{}", "async": True}
    items = [{"role": "user", "content": "Hi"}, call, {"role": "user", "content": "And?"}]
    answer = await system.http.create(model=MODEL, input=items, store=False)
    assert answer.status == 200, answer.body
    waiting = await system.http.create(model=MODEL, input=[call | {"async": False}, items[2]], store=False)
    assert (waiting.status, waiting.error["param"]) == (400, "input")


async def test_a_pending_call_outlives_a_compaction(system: ScriptedSystem) -> None:
    call: Object = {"type": "function_call", "call_id": "c", "name": "search", "arguments": "{}", "async": True}
    items = [{"role": "user", "content": "Hi"}, call, {"role": "user", "content": "And?"}]
    body = {"model": MODEL, "input": [*items, {"role": "assistant", "content": "Soon."}]}
    compacted = (await system.http.post("/v1/responses/compact", body)).json["output"]
    output = {"type": "function_call_output", "call_id": "c", "output": "42"}
    answer = await system.http.create(model=MODEL, input=[*compacted, output])
    assert answer.status == 200, answer.body
