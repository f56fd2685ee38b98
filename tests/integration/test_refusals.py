"""A chat server tells a refusal of its model apart from an answer: in both APIs, live, stored and replayed."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletion
from openai.types.responses import ResponseOutputMessage, ResponseOutputRefusal

from antiphon_core.fold import fold
from antiphon_core.jsons import Object
from tests.support.fake_chat import delta, ending
from tests.support.templated_system import TemplatedSystem, by_chat

HI = [{"role": "user", "content": "Hi"}]


@pytest.fixture
async def system() -> AsyncIterator[TemplatedSystem]:
    async with by_chat("Qwen3.5-4B") as running:
        running.server.script = [delta(refusal="I can"), delta(refusal="not."), *ending()]
        yield running


@pytest.fixture
async def client(system: TemplatedSystem) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=f"{system.http.url}/v1", api_key="none", max_retries=0) as made:
        yield made


async def test_refusal_is_a_part_of_a_message_with_its_own_events(system: TemplatedSystem) -> None:
    told = (await system.http.create(model="m", input="Hi", stream=True)).events
    refused = [event for event in told if "refusal" in event["type"] or "content_part" in event["type"]]
    place = {name: refused[0][name] for name in ("item_id", "output_index", "content_index")}
    assert place["output_index"] == place["content_index"] == 0
    assert all(place.items() <= event.items() for event in refused)
    assert [(event["type"], event.get("delta", event.get("refusal", event.get("part")))) for event in refused] == [
        ("response.content_part.added", {"type": "refusal", "refusal": ""}),
        ("response.refusal.delta", "I can"),
        ("response.refusal.delta", "not."),
        ("response.refusal.done", "I cannot."),
        ("response.content_part.done", {"type": "refusal", "refusal": "I cannot."}),
    ]
    ended = told[-1]["response"]
    assert fold(told) == ended
    assert (await system.http.get(f"/v1/responses/{ended['id']}")).json == ended
    assert content_of(ended) == [[{"type": "refusal", "refusal": "I cannot."}]]


async def test_client_reads_a_refusal_of_both_apis(client: AsyncOpenAI) -> None:
    (message,) = (await client.responses.create(model="m", input="Hi")).output
    assert isinstance(message, ResponseOutputMessage)
    assert message.content == [ResponseOutputRefusal(type="refusal", refusal="I cannot.")]
    async with client.responses.stream(model="m", input="Hi") as stream:
        assert (await stream.get_final_response()).output[0].content == message.content  # type: ignore[union-attr]
    completion = await client.chat.completions.create(model="m", messages=HI)  # type: ignore[arg-type]
    assert refusal_of(completion) == (None, "I cannot.", "stop")
    async with client.chat.completions.stream(model="m", messages=HI) as chunks:  # type: ignore[arg-type]
        assert refusal_of(await chunks.get_final_completion())[1:] == ("I cannot.", "stop")


async def test_refusal_behind_text_is_a_message_of_its_own(system: TemplatedSystem, client: AsyncOpenAI) -> None:
    system.server.script = [delta(content="Well. "), delta(refusal="I cannot."), *ending("content_filter")]
    answer = (await system.http.create(model="m", input="Hi")).json
    assert (answer["status"], answer["incomplete_details"]) == ("incomplete", {"reason": "content_filter"})
    text, refusal = content_of(answer)
    assert (text[0]["text"], refusal) == ("Well.", [{"type": "refusal", "refusal": "I cannot."}])
    completion = await client.chat.completions.create(model="m", messages=HI)  # type: ignore[arg-type]
    assert refusal_of(completion) == ("Well.", "I cannot.", "content_filter")


async def test_refusal_in_place_of_a_structured_answer_is_no_mismatch_and_reaches_the_model(
    system: TemplatedSystem,
) -> None:
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    form = {"format": {"type": "json_schema", "name": "x", "schema": schema}}
    refused = (await system.http.create(model="m", input="Hi", text=form)).json
    assert refused["status"] == "completed"
    await system.http.create(model="m", input="Why?", previous_response_id=refused["id"])
    messages = system.server.requests[-1]["messages"]
    assert [(message["role"], message["content"]) for message in messages] == [
        *(("user", "Hi"), ("assistant", "I cannot.")),
        ("user", "Why?"),
    ]


def content_of(response: Object) -> list[list[Object]]:
    return [item["content"] for item in response["output"]]


def refusal_of(completion: ChatCompletion) -> tuple[str | None, str | None, str]:
    (choice,) = completion.choices
    return choice.message.content, choice.message.refusal, choice.finish_reason
