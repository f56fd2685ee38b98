"""Chat completions over HTTP."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from antiphon_core.errors import EngineFault, InvalidRequest
from antiphon_core.jsons import Object, loads
from antiphon_core.offload import INLINE_BYTES_MAX
from antiphon_edge.chat.completions import completion_of
from antiphon_edge.routes import chat
from tests.support.document import require
from tests.support.edge import running_edge
from tests.support.http import Answer
from tests.support.images import data_url, png
from tests.support.scripted_answers import LINE, PLACE, THOUGHT
from tests.support.scripted_system import MODEL, SEER, ScriptedSystem, scripted_system

PATH = "/v1/chat/completions"
FUNCTION = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


@pytest.fixture
async def system() -> AsyncIterator[ScriptedSystem]:
    async with scripted_system() as running:
        yield running


def user(content: Any) -> Object:
    return {"role": "user", "content": content}


async def ask(system: ScriptedSystem, *messages: Object, **members: Any) -> Answer:
    body = {"model": MODEL, "messages": list(messages) or [user("Hi")]} | members
    return await system.http.post(PATH, body)


def chunks_of(answer: Answer) -> list[Object]:
    assert answer.status == 200, answer.body
    assert answer.headers["content-type"].startswith("text/event-stream")
    *lines, done = [part for part in answer.body.split(b"\n\n") if part]
    assert done == b"data: [DONE]"
    chunks: list[Object] = [loads(line.removeprefix(b"data: ")) for line in lines]
    for chunk in chunks:
        require("ChatStreamed", chunk)
    return chunks


async def test_completion_has_text_finish_reason_and_usage(system: ScriptedSystem) -> None:
    answer = await ask(system, {"role": "system", "content": "Be kind."}, user("Hi"))
    assert answer.status == 200
    require("ChatCompletion", answer.json)
    (choice,) = answer.json["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == (LINE, "stop")
    assert system.model.prompts[0].startswith("<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHi<|im_end|>")
    usage = answer.json["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]


async def test_stream_has_the_text_and_ends_with_a_finish_reason(system: ScriptedSystem) -> None:
    chunks = chunks_of(await ask(system, stream=True))
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert "".join(delta.get("content", "") for delta in deltas) == LINE
    assert (deltas[0]["role"], deltas[-1]) == ("assistant", {})
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
    assert all("usage" not in chunk for chunk in chunks)


async def test_stream_with_usage_ends_with_the_usage_of_a_completion(system: ScriptedSystem) -> None:
    chunks = chunks_of(await ask(system, stream=True, stream_options={"include_usage": True}))
    assert (await ask(system)).json["usage"] == chunks[-1]["usage"]


async def test_tools_are_called_and_answered(system: ScriptedSystem) -> None:
    first = (await ask(system, tools=[FUNCTION])).json["choices"][0]
    assert first["finish_reason"] == "tool_calls"
    (call,) = first["message"]["tool_calls"]
    assert call["function"] == {"name": "f", "arguments": '{"location":"San Francisco, CA"}'}
    result = {"role": "tool", "tool_call_id": call["id"], "content": "Sunny."}
    second = (await ask(system, user("Hi"), first["message"], result, tools=[FUNCTION])).json["choices"][0]
    assert (second["message"]["content"], second["finish_reason"]) == ("I was told: Sunny.", "stop")


async def test_tool_call_is_streamed_in_deltas(system: ScriptedSystem) -> None:
    chunks = chunks_of(await ask(system, stream=True, tools=[FUNCTION]))
    calls = [call for chunk in chunks for call in chunk["choices"][0]["delta"].get("tool_calls", [])]
    assert calls[0]["function"]["name"] == "f"
    assert {call["index"] for call in calls} == {0}
    assert "".join(call["function"]["arguments"] for call in calls) == '{"location":"San Francisco, CA"}'
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"


async def test_reasoning_is_in_completions_and_streams(system: ScriptedSystem) -> None:
    message = (await ask(system, user("Think."))).json["choices"][0]["message"]
    assert (message["reasoning_content"], message["content"]) == (THOUGHT, LINE)
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks_of(await ask(system, user("Think."), stream=True))]
    assert "".join(delta.get("reasoning_content", "") for delta in deltas) == THOUGHT


async def test_image_is_accepted_only_by_a_model_that_sees(system: ScriptedSystem) -> None:
    picture = {"type": "image_url", "image_url": {"url": data_url(png())}}
    parts = [{"type": "text", "text": "What is it?"}, picture]
    made = (await ask(system, user(parts), model=SEER)).json
    assert made["choices"][0]["message"]["content"] == "I see 1 image(s)."
    refused = await ask(system, user(parts))
    assert (refused.status, refused.error["param"]) == (400, "messages[0].content[1]")


@pytest.mark.parametrize("key", ["max_tokens", "max_completion_tokens"])
async def test_token_limit_ends_a_completion_with_finish_reason_length(system: ScriptedSystem, key: str) -> None:
    made = (await ask(system, **{key: 3})).json
    assert made["choices"][0]["finish_reason"] == "length"
    assert made["usage"]["completion_tokens"] == 3


async def test_stop_sequence_and_json_schema_are_obeyed(system: ScriptedSystem) -> None:
    stopped = (await ask(system, stop=[" there"])).json["choices"][0]
    assert (stopped["message"]["content"], stopped["finish_reason"]) == ("Hello", "stop")
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    form = {"type": "json_schema", "json_schema": {"name": "place", "schema": schema}}
    assert (await ask(system, response_format=form)).json["choices"][0]["message"]["content"] == PLACE


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("members", "status", "param", "code"),
    [
        ({"n": 2}, 400, "n", "unsupported_value"),
        ({"messages": []}, 400, "messages", "array_below_min_length"),
        ({"temperature": 3}, 400, "temperature", "decimal_above_max_value"),
        ({"model": "nobody"}, 404, "model", "model_not_found"),
        ({"messages": [{"role": "user", "content": "word " * 30_000}]}, 400, "messages", "context_length_exceeded"),
        (
            {"messages": [{"role": "tool", "tool_call_id": "c", "content": "a"}]},
            400,
            "messages",
            None,
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": 7}}}},
            400,
            "response_format.json_schema.schema",
            "invalid_json_schema",
        ),
    ],
)
async def test_invalid_chat_request_is_rejected_before_the_stream(
    system: ScriptedSystem, stream: bool, members: dict[str, Any], status: int, param: str, code: str | None
) -> None:
    answer = await ask(system, stream=stream, **members)
    assert (answer.status, answer.error["code"]) == (status, code), answer.body
    assert answer.error["param"].startswith(param)


async def test_engine_fault_is_a_502_or_an_error_in_the_stream(system: ScriptedSystem) -> None:
    whole = await ask(system, user("Fail."))
    assert (whole.status, whole.error["code"]) == (502, "engine_fault")
    *_, last = chunks_of(await ask(system, user("Fail."), stream=True))
    assert last["error"]["message"] == "The script says to fail."


@pytest.mark.parametrize("header", ["Idempotency-Key", "x-antiphon-session"])
async def test_key_or_session_header_on_a_chat_request_is_rejected(system: ScriptedSystem, header: str) -> None:
    body = b'{"model": "m", "messages": [{"role": "user", "content": "Hi"}]}'
    answer = await system.http.ask("POST", PATH, body, headers={header: "a"})
    assert (answer.status, answer.error["param"], answer.error["code"]) == (400, header, "unsupported_parameter")


async def test_completion_is_not_stored_and_a_client_disconnect_stops_the_model() -> None:
    async with running_edge() as edge:
        answer = await edge.ask("POST", PATH, {"model": "m", "messages": [user("Hi")]})
        assert answer.status == 200
        response_id = edge.translator.turns[0].response_id
        assert (await edge.ask("GET", f"/v1/responses/{response_id}")).status == 404
        edge.translator.hang = True
        edge.translator.closed.clear()
        body = {"model": "m", "messages": [user("Hi")], "stream": True}
        async with edge.http.session.post(edge.server.url + PATH, json=body) as stream:
            await stream.content.readline()
            stream.close()
        await edge.translator.closed.wait()


async def test_a_fault_before_the_first_event_is_a_plain_error() -> None:
    async with running_edge() as edge:
        edge.translator.words, edge.translator.fault = (), EngineFault("Broken.")
        answer = await edge.ask("POST", PATH, {"model": "m", "messages": [user("Hi")]})
    assert (answer.status, answer.error["message"]) == (502, "Broken.")


async def test_unsupported_parameter_is_rejected_with_its_chat_name(system: ScriptedSystem) -> None:
    answer = await ask(system, logprobs=True)
    assert (answer.status, answer.error["param"]) == (400, "logprobs")
    assert answer.error["message"] == (
        "Unsupported parameter: 'logprobs': this model's engine gives no log probabilities."
    )


async def test_grammar_of_a_custom_tool_is_read_and_its_error_has_the_whole_path(system: ScriptedSystem) -> None:
    def custom(definition: str) -> Object:
        form = {"type": "grammar", "grammar": {"syntax": "regex", "definition": definition}}
        return {"type": "custom", "custom": {"name": "c", "format": form}}

    assert (await ask(system, tools=[custom("a+")])).status == 200
    assert '"pattern": "^(a+)$"' in system.model.prompts[-1]
    answer = await ask(system, tools=[custom("(")])
    assert (answer.status, answer.error["param"]) == (400, "tools[0].custom.format.grammar.definition")


async def test_a_large_completion_is_made_outside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []

    def noted(response: Object) -> Object:
        threads.append(threading.current_thread())
        return completion_of(response)

    monkeypatch.setattr(chat, "completion_of", noted)
    async with running_edge() as edge:
        edge.translator.words = ["x" * INLINE_BYTES_MAX]
        answer = await edge.ask("POST", PATH, {"model": "m", "messages": [user("Hi")]})
    assert answer.json["choices"][0]["message"]["content"] == "x" * INLINE_BYTES_MAX
    assert len(threads) == 1
    assert threading.current_thread() not in threads


@pytest.mark.parametrize("stream", [False, True])
async def test_an_error_of_the_engine_names_the_parameter_of_the_chat_request(stream: bool) -> None:
    async with running_edge() as edge:
        edge.translator.fault = InvalidRequest("'text.format' is too complex.", field="text.format", code="too_complex")
        body = {"model": "m", "messages": [user("Hi")], "stream": stream}
        answer = await edge.ask("POST", PATH, body)
    error = chunks_of(answer)[-1]["error"] if stream else answer.error
    assert (error["param"], error["code"]) == ("response_format", "too_complex")
    assert error["message"] == "'response_format' is too complex."
