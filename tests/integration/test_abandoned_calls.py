"""A turn that failed, was cancelled or ended early after a whole call, and the turns after it, through the whole
system."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from antiphon_core.errors import EngineFault
from antiphon_core.jsons import Object
from antiphon_translator.engines.scripted import Break, Emit, Hang, ScriptedEngine, Step
from tests.support.http import Http
from tests.support.in_process import running
from tests.support.prompts import ids_in
from tests.support.reasoning_model import CALL, END_ID, TOKENIZER, WEATHER, reasoning_model
from tests.support.small_vocabulary import ids_of

SECOND_CALL = ("<tool_call>", '{"name": "get_weather", "arguments": {"city": "O')


GO: Object = {"model": "m", "input": "Go.", "tools": [WEATHER]}


class Talk:
    """A running system whose model plays a script."""

    def __init__(self, http: Http, engine: ScriptedEngine) -> None:
        self.http = http
        self.engine = engine

    def script(self, *pieces: str, then: Step) -> None:
        self.engine.script = [*(Emit([token_id]) for token_id in ids_of(TOKENIZER, *pieces)), then]

    async def conversation(self) -> str:
        created = await self.http.post("/v1/conversations", {})
        return str(created.json["id"])

    async def say(self, **request: Any) -> Object:
        """A turn that the model answers with `Hi.`; returns its response."""
        self.script("Hi.", then=Emit([END_ID]))
        answer = await self.http.create(model="m", tools=[WEATHER], **request)
        assert answer.status == 200, answer.body
        response: Object = answer.json
        return response

    @property
    def prompt(self) -> str:
        """The last prompt that the model read."""
        return TOKENIZER.decode(ids_in(self.engine.requests[-1]))


@pytest.fixture
async def talk() -> AsyncIterator[Talk]:
    engine = ScriptedEngine([])
    async with running((reasoning_model(), engine), workers=1) as system:
        yield Talk(system.http, engine)


async def fail(talk: Talk, **request: Any) -> Object:
    talk.script(*CALL, *SECOND_CALL, then=Break(EngineFault("broken")))
    async with talk.http.stream(**GO, **request) as events:
        final = [event async for event in events][-1]
    response: Object = final["response"]
    return response


async def disconnect(talk: Talk, **request: Any) -> Object:
    return await talk.http.ended(await _after_the_call(talk, None, request))


async def cancel(talk: Talk, **request: Any) -> Object:
    return await talk.http.ended(await _after_the_call(talk, "cancel", request | {"background": True}))


async def cut_off(talk: Talk, **request: Any) -> Object:
    talk.script(*CALL, *SECOND_CALL, then=Emit([END_ID]))
    most = len(ids_of(TOKENIZER, *CALL, *SECOND_CALL)) - 2
    answer = await talk.http.create(**GO, max_output_tokens=most, **request)
    response: Object = answer.json
    return response


async def _after_the_call(talk: Talk, action: str | None, request: Object) -> str:
    """Starts a response, and disconnects from it or posts `action` when its first call is whole. Returns its id."""
    talk.script(*CALL, *SECOND_CALL, then=Hang())
    async with talk.http.stream(**GO, **request) as events:
        response_id = str((await anext(events))["response"]["id"])
        async for event in events:
            if event["type"] == "response.output_item.done":
                break
        if action is not None:
            await talk.http.post(f"/v1/responses/{response_id}/{action}", {})
    return response_id


End = Callable[..., Awaitable[Object]]
ENDS = [(fail, "failed"), (disconnect, "cancelled"), (cancel, "cancelled"), (cut_off, "incomplete")]


@pytest.mark.parametrize(("end", "status"), ENDS)
@pytest.mark.parametrize("by", ["conversation", "previous_response_id"])
async def test_an_unanswered_call_of_a_response_that_did_not_complete_blocks_no_later_turn(
    talk: Talk, end: End, status: str, by: str
) -> None:
    within = {"conversation": await talk.conversation()} if by == "conversation" else {}
    broken = await end(talk, **within)
    assert (broken["status"], broken["output"][0]["status"]) == (status, "completed")
    later = within or {"previous_response_id": broken["id"]}
    second = await talk.say(input="Never mind.", **later)
    assert "Rome" not in talk.prompt
    await talk.say(input="And now?", **(within or {"previous_response_id": second["id"]}))
    counted = await talk.http.post("/v1/responses/input_tokens", {"model": "m", "input": "How many?", **later})
    assert counted.status == 200, counted.body


@pytest.mark.parametrize(("end", "status"), ENDS)
async def test_an_answered_call_of_a_response_that_did_not_complete_is_shown(talk: Talk, end: End, status: str) -> None:
    broken = await end(talk)
    call_id = broken["output"][0]["call_id"]
    result = {"type": "function_call_output", "call_id": call_id, "output": "Sunny."}
    await talk.say(input=[result], previous_response_id=broken["id"])
    assert '"arguments": {"city": "Rome"}' in talk.prompt
    assert "<|im_start|>tool\nSunny.<|im_end|>" in talk.prompt


async def test_a_reference_to_an_abandoned_call_blocks_no_turn(talk: Talk) -> None:
    broken = await fail(talk)
    await talk.say(
        input=[{"type": "item_reference", "id": broken["output"][0]["id"]}, {"role": "user", "content": "?"}]
    )
    assert "Rome" not in talk.prompt


async def test_an_abandoned_call_of_a_response_that_is_not_stored_blocks_no_turn(talk: Talk) -> None:
    broken = await cut_off(talk, store=False, include=["reasoning.encrypted_content"])
    await talk.say(input="Never mind.", previous_response=broken, store=False)
    assert "Rome" not in talk.prompt


async def test_an_unanswered_call_of_a_completed_response_is_still_refused(talk: Talk) -> None:
    talk.script(*CALL, then=Emit([END_ID]))
    first = await talk.http.create(**GO)
    assert first.json["status"] == "completed"
    answer = await talk.http.create(**GO, previous_response_id=first.json["id"])
    assert answer.status == 400
    assert answer.error["message"].startswith("No tool output found")
