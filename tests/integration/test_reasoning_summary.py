"""Over HTTP, with a chat server that reasons: clients that show only summaries get the reasoning as a summary."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from openai import AsyncOpenAI

from antiphon_core.fold import fold
from antiphon_core.jsons import Object
from tests.support.fake_chat import delta, ending
from tests.support.templated_system import TemplatedSystem, by_chat

ORDER = [
    "response.output_item.added",
    "response.reasoning_summary_part.added",
    "response.reasoning_summary_text.delta",
    "response.reasoning_summary_text.delta",
    "response.reasoning_summary_text.done",
    "response.reasoning_summary_part.done",
    "response.output_item.done",
]
SCRIPT = [
    delta(reasoning_content="Hm. "),
    delta(reasoning_content="Well."),
    delta(content="Yes."),
    *ending(),
]
SUMMARY = [{"type": "summary_text", "text": "Hm. Well."}]


@pytest.fixture
async def system() -> AsyncIterator[TemplatedSystem]:
    async with by_chat("Qwen3.5-4B") as running:
        running.server.script = SCRIPT
        yield running


def of_reasoning(log: list[Object]) -> list[str]:
    """The event types of the first item, with any number of deltas as two."""
    names = [event["type"] for event in log if event.get("output_index") == 0]
    at = names.index(ORDER[2])
    deltas = names.count(ORDER[2])
    return [*names[:at], *ORDER[2:4], *names[at + deltas :]]


@pytest.mark.parametrize("length", ["auto", "concise", "detailed"])
async def test_a_reasoning_summary_is_streamed_stored_and_replayed(system: TemplatedSystem, length: str) -> None:
    log = (await system.http.create(model="m", input="Hi", stream=True, reasoning={"summary": length})).events
    assert of_reasoning(log) == ORDER
    told = log[-1]["response"]
    assert fold(log) == told
    thought, answer = told["output"]
    assert (thought["summary"], thought["content"]) == (SUMMARY, [])
    assert answer["content"][0]["text"] == "Yes."
    assert told["reasoning"]["summary"] == "detailed"
    stored = await system.http.get(f"/v1/responses/{told['id']}")
    assert stored.json["output"] == told["output"]
    again = (await system.http.get(f"/v1/responses/{told['id']}?stream=true")).events
    assert of_reasoning(again) == ORDER
    assert fold(again) == told


async def test_the_model_reads_its_reasoning_summary_in_the_next_turn(system: TemplatedSystem) -> None:
    first = await system.ask([{"role": "user", "content": "Hi"}], reasoning={"summary": "auto"})
    await system.ask([{"role": "user", "content": "Go on."}], previous_response_id=first["id"])
    resent = [{"role": "user", "content": "Hi"}, *first["output"], {"role": "user", "content": "Go on."}]
    await system.ask(resent, store=False)
    for request in system.server.requests[1:]:
        assert request["messages"][1]["reasoning"] == "Hm. Well."


async def test_reasoning_without_a_requested_summary_is_sent_as_content(system: TemplatedSystem) -> None:
    told = await system.ask([{"role": "user", "content": "Hi"}], reasoning={"effort": "high"})
    assert (told["output"][0]["summary"], told["output"][0]["content"][0]["text"]) == ([], "Hm. Well.")
    assert told["reasoning"] == {"effort": "high", "summary": None}


@pytest.mark.parametrize("is_seen", [True, False])
@pytest.mark.parametrize(("owner", "echoed"), [("vllm", "low"), (None, None)])
async def test_an_effort_that_a_server_of_an_unknown_kind_is_not_sent_is_not_echoed(
    owner: str | None, echoed: str | None, is_seen: bool
) -> None:
    async with by_chat("Qwen3.5-4B", is_seen=is_seen) as system:
        system.server.owner = owner
        told = await system.ask([{"role": "user", "content": "Hi"}], reasoning={"effort": "low"})
        assert told["reasoning"]["effort"] == echoed
        assert ("chat_template_kwargs" in system.server.requests[-1]) is (echoed is not None)


async def test_a_profile_can_disable_reasoning_summaries() -> None:
    async with by_chat("Qwen3.5-4B", reasoning_summary="none") as system:
        system.server.script = SCRIPT
        told = await system.ask([{"role": "user", "content": "Hi"}], reasoning={"summary": "auto"})
        assert told["output"][0]["summary"] == []
        assert told["reasoning"]["summary"] is None


async def test_the_sdk_reads_a_reasoning_summary(system: TemplatedSystem) -> None:
    asked: Object = {"model": "m", "input": "Hi", "reasoning": {"summary": "auto"}}
    async with (
        AsyncOpenAI(base_url=f"{system.http.url}/v1", api_key="none") as client,
        client.responses.stream(**asked) as stream,
    ):
        texts = [event.delta async for event in stream if event.type == "response.reasoning_summary_text.delta"]
        final = await stream.get_final_response()
    assert "".join(texts) == "Hm. Well."
    assert final.output[0].type == "reasoning"
    assert [part.text for part in final.output[0].summary] == ["Hm. Well."]
