"""The cases of the Open Responses compliance suite that are plain HTTP, one test for each, by the suite's names.

The suite itself is a program for bun (https://github.com/openresponses/openresponses, bin/compliance-test.ts). With a
copy of it, and `python -m tests.support.scripted_up 8391` in another shell:

    bun run bin/compliance-test.ts -u http://127.0.0.1:8391/v1 -k none -m seer

That server is `antiphon up` on a real Triton; `tests.support.scripted_system` serves the same models from one process.
All cases pass with `seer`, and all but the image case with `m`, which accepts no images.

The cases for compaction and for WebSocket are in the two modules beside this one. Tests of features that the suite does
not cover follow at the end.
"""

from __future__ import annotations

from typing import Any

from antiphon_core import events
from antiphon_core.jsons import Object
from tests.support.http import Http
from tests.support.images import data_url, image_part, png, user
from tests.support.prompts import images_in
from tests.support.schema import validate_event, validate_response
from tests.support.scripted_answers import LINE, PLACE, THOUGHT
from tests.support.scripted_system import MODEL, SEER, ScriptedSystem

NAME = "My name is Alice."
GREETING = "Hello Alice! How can I help you today?"
PICTURE = png(32, 32)


def said(role: str, content: Any, **members: Any) -> Object:
    return {"type": "message", "role": role, "content": content} | members


async def answered(http: Http, model: str, *messages: Object, **request: Any) -> Object:
    """Creates a response and checks what the suite requires of each: 200, schema, completed, and output."""
    answer = await http.create(model=model, input=list(messages), **request)
    assert answer.status == 200, answer.body
    response: Object = answer.json
    validate_response(response)
    assert response["status"] == "completed"
    assert response["output"]
    return response


def text_of(response: Object) -> str:
    return "".join(part["text"] for item in response["output"] for part in item.get("content", []))


async def test_basic_response(served: Http, model: str) -> None:
    response = await answered(served, model, said("user", "Say hello in exactly 3 words."))
    assert text_of(response) == LINE


async def test_assistant_phase(served: Http, model: str) -> None:
    response = await answered(
        served,
        model,
        said("assistant", "I should answer with the saved number.", phase="commentary"),
        said("assistant", "The number is four.", phase="final_answer"),
        said("user", "Repeat only the number."),
    )
    kept = (await served.get(f"/v1/responses/{response['id']}/input_items?order=asc")).json["data"]
    assert [item.get("phase", "absent") for item in kept] == ["commentary", "final_answer", "absent"]


async def test_response_output_phase_schema(served: Http, model: str) -> None:
    """Validates a response with phases without a server, as the suite does."""
    response = await answered(served, model, said("user", "Hi"))
    (message,) = response["output"]
    phases = ("commentary", "final_answer")
    validate_response(response | {"output": [message | {"phase": phase} for phase in phases]})


async def test_streaming_response(served: Http, model: str) -> None:
    answer = await served.create(model=model, input=[said("user", "Count from 1 to 5.")], stream=True)
    assert answer.status == 200
    log = answer.events
    for event in log:
        validate_event(event)
    assert log[-1]["type"] == events.COMPLETED
    validate_response(log[-1]["response"])
    assert log[-1]["response"]["status"] == "completed"
    deltas = [event["delta"] for event in log if event["type"] == events.OUTPUT_TEXT_DELTA]
    assert "".join(deltas) == text_of(log[-1]["response"]) == LINE


async def test_every_chunk_of_a_stream_ends_with_a_whole_event(scripted: ScriptedSystem) -> None:
    """The suite's reader loses an event that is split over two reads."""
    scripted.model.pause_s = 0.001
    pieces: list[bytes] = []
    body = {"model": MODEL, "input": "Count.", "stream": True}
    async with scripted.http.session.post(scripted.url + "/v1/responses", json=body) as answer:
        async for piece, _ in answer.content.iter_chunks():
            pieces.append(piece)
    assert len(pieces) > 5
    assert all(piece.endswith(b"\n\n") for piece in pieces if piece)


async def test_system_prompt(served: Http, model: str) -> None:
    await answered(served, model, said("system", "Always respond in pirate speak."), said("user", "Say hello."))


async def test_tool_calling(served: Http, model: str) -> None:
    weather = {
        "type": "function",
        "name": "get_weather",
        "description": "Get the current weather for a location",
        "parameters": {
            "type": "object",
            "properties": {"location": {"type": "string", "description": "City and state"}},
            "required": ["location"],
        },
    }
    response = await answered(served, model, said("user", "What's the weather like in San Francisco?"), tools=[weather])
    (call,) = response["output"]
    assert (call["type"], call["name"]) == ("function_call", "get_weather")
    assert call["arguments"] == '{"location":"San Francisco, CA"}'


async def test_image_input(served: Http) -> None:
    response = await answered(served, SEER, user("What do you see?", image_part(data_url(PICTURE))))
    assert text_of(response) == "I see 1 image(s)."


async def test_multi_turn(served: Http, model: str) -> None:
    await answered(served, model, said("user", NAME), said("assistant", GREETING), said("user", "What is my name?"))


async def test_the_result_of_a_function_call_reaches_the_model(served: Http, model: str) -> None:
    tools = [{"type": "function", "name": "look", "parameters": {"type": "object"}}]
    first = await answered(served, model, said("user", "Look."), tools=tools)
    result = {"type": "function_call_output", "call_id": first["output"][0]["call_id"], "output": "Clear: ☀"}
    second = await answered(served, model, result, tools=tools, previous_response_id=first["id"])
    assert text_of(second) == "I was told: Clear: ☀"


async def test_reasoning_and_answer_are_separate_items(served: Http, model: str) -> None:
    response = await answered(served, model, said("user", "Think."))
    reasoning, message = response["output"]
    assert (reasoning["type"], text_of({"output": [reasoning]})) == ("reasoning", THOUGHT)
    assert text_of({"output": [message]}) == LINE


async def test_structured_output_is_the_json_of_its_schema(served: Http, model: str) -> None:
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    }
    text = {"format": {"type": "json_schema", "name": "place", "schema": schema, "strict": True}}
    answer = await served.create(model=model, input="Where?", text=text)
    assert (answer.status, text_of(answer.json)) == (200, PLACE)


async def test_a_response_cut_at_max_output_tokens_is_incomplete(served: Http, model: str) -> None:
    answer = (await served.create(model=model, input="Hi", max_output_tokens=16)).json
    assert (answer["status"], answer["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
    assert text_of(answer) == LINE[:16]


async def test_an_engine_error_ends_the_stream_with_response_failed(served: Http, model: str) -> None:
    log = (await served.create(model=model, input="Fail.", stream=True)).events
    assert log[-1]["type"] == events.FAILED
    assert text_of(log[-1]["response"]) == LINE
    assert log[-1]["response"]["error"]["code"] == "server_error"


async def test_all_messages_and_images_reach_the_model(scripted: ScriptedSystem) -> None:
    talk = (said("system", "Be brief."), said("user", NAME), said("assistant", GREETING))
    await answered(scripted.http, SEER, *talk, user("What do you see?", image_part(data_url(PICTURE))))
    (prompt,), (request,) = scripted.seer.prompts, scripted.seer.requests
    for role, text in (("system", "Be brief."), ("user", NAME), ("assistant", GREETING)):
        assert f"<|im_start|>{role}\n{text}<|im_end|>" in prompt
    assert images_in(request) == (PICTURE,)
