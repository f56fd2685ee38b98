"""`parallel_tool_calls: false` with a chat server: it is told, its usage holds, and a second call is dropped."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from antiphon_core.jsons import Object
from tests.support.fake_chat import delta, ending
from tests.support.templated_system import TemplatedSystem, by_chat

TOOLS = [{"type": "function", "name": name, "parameters": {"type": "object"}} for name in "fg"]


@pytest.fixture
async def system() -> AsyncIterator[TemplatedSystem]:
    async with by_chat("Qwen3.5-4B") as running:
        yield running


def call(index: int, name: str) -> bytes:
    function = {"name": name, "arguments": '{"a":1}'}
    return delta(tool_calls=[{"index": index, "id": f"call_{name}", "type": "function", "function": function}])


async def answer_of(system: TemplatedSystem, **members: object) -> Object:
    answer: Object = (await system.http.create(model="m", input="Hi", tools=TOOLS, **members)).json
    return answer


async def test_server_is_told_and_counts_the_tokens_of_a_turn_with_one_call(system: TemplatedSystem) -> None:
    system.server.script = [call(0, "f"), call(1, "g"), delta(content="So."), *ending("tool_calls")]
    answer = await answer_of(system, parallel_tool_calls=False)
    assert system.server.requests[-1]["parallel_tool_calls"] is False
    assert [(item["type"], item["status"]) for item in answer["output"]] == [("function_call", "completed")]
    assert (answer["status"], answer["usage"]["input_tokens"], answer["usage"]["output_tokens"]) == ("completed", 4, 9)
    for members in ({}, {"parallel_tool_calls": True}):
        assert [item["name"] for item in (await answer_of(system, **members))["output"] if "name" in item] == ["f", "g"]
    assert "parallel_tool_calls" not in system.server.requests[-2]


async def test_turn_with_its_one_call_does_not_fail_with_what_follows(system: TemplatedSystem) -> None:
    system.server.script = [call(0, "f"), call(1, "g")]  # and no end
    answer = await answer_of(system, parallel_tool_calls=False)
    assert (answer["status"], [item["name"] for item in answer["output"]]) == ("completed", ["f"])
    assert answer["usage"]["input_tokens"] > 0
    assert (await answer_of(system))["error"]["code"] == "engine_fault"
