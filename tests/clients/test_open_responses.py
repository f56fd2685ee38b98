"""The cases of the Open Responses compliance suite that are plain HTTP, one test for each, by the suite's names.

The suite itself is a program for bun (https://github.com/openresponses/openresponses, bin/compliance-test.ts). With a
copy of it, and `python -m tests.support.scripted_system 8391` in another shell:

    bun run bin/compliance-test.ts -u http://127.0.0.1:8391/v1 -k none -m seer

The cases for compaction and for WebSocket are in the two modules beside this one.
"""

from __future__ import annotations

from typing import Any

from antiphon_core import events
from antiphon_core.jsons import Object
from tests.support.images import data_url, image_part, png, user
from tests.support.schema import validate_event, validate_response
from tests.support.scripted_system import LINE, MODEL, SEER, ScriptedSystem


def said(role: str, content: Any, **members: Any) -> Object:
    return {"type": "message", "role": role, "content": content} | members


async def answered(system: ScriptedSystem, *messages: Object, **request: Any) -> Object:
    """A response as the suite wants each: 200, by the schema, completed, and with output."""
    answer = await system.http.create(**({"model": MODEL, "input": list(messages)} | request))
    assert answer.status == 200, answer.body
    response: Object = answer.json
    validate_response(response)
    assert response["status"] == "completed"
    assert response["output"]
    return response


def text_of(response: Object) -> str:
    return "".join(part["text"] for item in response["output"] for part in item.get("content", []))


async def test_basic_response(scripted: ScriptedSystem) -> None:
    response = await answered(scripted, said("user", "Say hello in exactly 3 words."))
    assert text_of(response) == LINE


async def test_assistant_phase(scripted: ScriptedSystem) -> None:
    response = await answered(
        scripted,
        said("assistant", "I should answer with the saved number.", phase="commentary"),
        said("assistant", "The number is four.", phase="final_answer"),
        said("user", "Repeat only the number."),
    )
    kept = (await scripted.http.get(f"/v1/responses/{response['id']}/input_items?order=asc")).json["data"]
    assert [item.get("phase", "absent") for item in kept] == ["commentary", "final_answer", "absent"]


async def test_response_output_phase_schema(scripted: ScriptedSystem) -> None:
    """The suite holds a response with phases against the schema, and asks no server. So does this."""
    response = await answered(scripted, said("user", "Hi"))
    (message,) = response["output"]
    phases = ("commentary", "final_answer")
    validate_response(response | {"output": [message | {"phase": phase} for phase in phases]})


async def test_streaming_response(scripted: ScriptedSystem) -> None:
    answer = await scripted.http.create(model=MODEL, input=[said("user", "Count from 1 to 5.")], stream=True)
    assert answer.status == 200
    log = answer.events
    for event in log:
        validate_event(event)
    assert log[-1]["type"] == events.COMPLETED
    validate_response(log[-1]["response"])
    assert log[-1]["response"]["status"] == "completed"
    deltas = [event["delta"] for event in log if event["type"] == events.OUTPUT_TEXT_DELTA]
    assert "".join(deltas) == text_of(log[-1]["response"]) == LINE


async def test_no_event_is_cut_which_the_suites_reader_would_lose(scripted: ScriptedSystem) -> None:
    """It forgets the event it is in whenever it reads again."""
    scripted.model.pause_s = 0.001
    pieces: list[bytes] = []
    body = {"model": MODEL, "input": "Count.", "stream": True}
    async with scripted.http.session.post(scripted.url + "/v1/responses", json=body) as answer:
        async for piece, _ in answer.content.iter_chunks():
            pieces.append(piece)
    assert len(pieces) > 5
    assert all(piece.endswith(b"\n\n") for piece in pieces if piece)


async def test_system_prompt(scripted: ScriptedSystem) -> None:
    await answered(scripted, said("system", "Always respond in pirate speak."), said("user", "Say hello."))
    assert "<|im_start|>system\nAlways respond in pirate speak.<|im_end|>" in scripted.model.prompts[0]


async def test_tool_calling(scripted: ScriptedSystem) -> None:
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
    response = await answered(scripted, said("user", "What's the weather like in San Francisco?"), tools=[weather])
    (call,) = response["output"]
    assert (call["type"], call["name"]) == ("function_call", "get_weather")
    assert call["arguments"] == '{"location":"San Francisco, CA"}'


async def test_image_input(scripted: ScriptedSystem) -> None:
    picture = png(32, 32)
    response = await answered(scripted, user("What do you see?", image_part(data_url(picture))), model=SEER)
    assert text_of(response) == "I see 1 image(s)."
    assert scripted.seer.requests[0].images == (picture,)


async def test_multi_turn(scripted: ScriptedSystem) -> None:
    await answered(
        scripted,
        said("user", "My name is Alice."),
        said("assistant", "Hello Alice! How can I help you today?"),
        said("user", "What is my name?"),
    )
    assert "<|im_start|>user\nMy name is Alice.<|im_end|>" in scripted.model.prompts[0]
    assert "<|im_start|>assistant\nHello Alice! How can I help you today?<|im_end|>" in scripted.model.prompts[0]
