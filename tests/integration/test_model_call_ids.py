"""Ids of calls in prompts: the model's own where it wrote one with the tool's name, else in the form of its family."""

from __future__ import annotations

from tests.support.fake_chat import delta, ending
from tests.support.templated_system import by_chat, by_tokens

TOOLS = [{"type": "function", "name": name, "parameters": {"type": "object"}} for name in ("get_weather", "get_time")]
HISTORY = [
    {"role": "user", "content": "Hi"},
    *({"type": "function_call", "call_id": f"call_{name}", "name": name, "arguments": "{}"} for name in "ab"),
    *({"type": "function_call_output", "call_id": f"call_{name}", "output": f"Result {name}"} for name in "ba"),
    {"type": "function_call", "call_id": "call_c", "name": "c", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "call_c", "output": "Result c"},
]


async def test_ids_of_other_origin_get_the_form_that_kimi_was_trained_on() -> None:
    async with by_tokens("moonshotai-Kimi-K2") as system:
        await system.ask(HISTORY)
        (prompt,) = system.prompts()
    for call_id in ("functions.a:0", "functions.b:1", "functions.c:0"):  # this template counts them in each message
        assert f"<|tool_call_begin|>{call_id}<|tool_call_argument_begin|>" in prompt
        assert f"Return of {call_id}\\nResult {call_id[10]}" in prompt


async def test_id_that_a_model_wrote_comes_back_to_it_and_others_do_not() -> None:
    async with by_chat("Qwen3.5-4B", is_seen=False) as system:
        for model_id, kept in (("functions.get_weather:7", True), ("chatcmpl-tool-1", False)):
            function = {"name": "get_weather", "arguments": "{}"}
            system.server.script = [delta(tool_calls=[{"index": 0, "id": model_id, "function": function}]), *ending()]
            called = await system.ask([{"role": "user", "content": "Hi"}], tools=TOOLS)
            (call,) = called["output"]
            assert call["call_id"].startswith("call_")
            assert call.get("model_call_id") == (model_id if kept else None)
            output = {"type": "function_call_output", "call_id": call["call_id"], "output": "Sunny"}
            await system.ask([output], tools=TOOLS, previous_response_id=called["id"])
            *_, calling, result = system.server.requests[-1]["messages"]
            (shown,) = calling["tool_calls"]
            assert shown["id"] == result["tool_call_id"]
            assert (shown["id"] == model_id) is kept
