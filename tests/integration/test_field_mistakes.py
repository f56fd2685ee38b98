"""Known mistakes of other servers of this API, over HTTP. Antiphon makes none of them."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import pytest

from antiphon_core import events
from antiphon_core.errors import EngineFault
from antiphon_core.fold import fold
from antiphon_core.jsons import Object
from tests.support.http import Http
from tests.support.in_process import worker
from tests.support.reasoning_model import CALL, WEATHER
from tests.support.schema import validate_response
from tests.support.thinking_edges import Edges, thinking_edges
from tests.support.waiting import WAIT_MAX_S

UNKNOWN = "resp_" + "0" * 48


@pytest.fixture
async def edges() -> AsyncIterator[Edges]:
    async with thinking_edges("Hello there.", count=2) as running:
        yield running


async def streamed(http: Http, **members: Any) -> list[Object]:
    return (await http.create(**({"model": "m", "input": "hi", "stream": True} | members))).events


def texts(items: list[Object]) -> list[str]:
    return [item["content"][0]["text"] for item in items]


# ---- History ----


async def test_history_is_not_cut_at_a_hundred_turns(edges: Edges) -> None:
    edges.engine.set_output("a")
    previous = None
    for number in range(104):
        previous = (await edges.create(input=f"turn {number}.", previous_response_id=previous))["id"]
    await edges.create(input="last", previous_response_id=previous)
    assert [edges.prompt.count(f"turn {number}.") for number in range(104)] == [1] * 104


async def test_a_context_does_not_double(edges: Edges) -> None:
    previous, counts = None, []
    for _ in range(6):
        said = await edges.create(previous_response_id=previous)
        counts.append(said["usage"]["input_tokens"])
        previous = said["id"]
    growth = {after - before for before, after in pairwise(counts)}
    assert len(growth) == 1, counts


async def test_the_first_items_of_a_conversation_are_read(edges: Edges) -> None:
    items = [{"role": "user", "content": "My name is Ada."}, {"role": "assistant", "content": "Hello Ada."}]
    conversation = (await edges.http.post("/v1/conversations", {"items": items})).json["id"]
    await edges.create(input="Who am I?", conversation=conversation)
    for text in ("My name is Ada.", "Hello Ada.", "Who am I?"):
        assert edges.prompt.count(text) == 1


@pytest.mark.parametrize("stream", [False, True])
async def test_an_unknown_previous_response_is_rejected(edges: Edges, stream: bool) -> None:
    answer = await edges.http.create(model="m", input="hi", previous_response_id=UNKNOWN, stream=stream)
    assert (answer.status, answer.error["code"]) == (400, "previous_response_not_found")
    assert edges.engine.requests == []


async def test_instructions_are_not_inherited(edges: Edges) -> None:
    first = await edges.create(instructions="Speak like a pirate.", temperature=0.3, tools=[WEATHER])
    assert "pirate" in edges.prompt
    second = await edges.create(previous_response_id=first["id"])
    assert "pirate" not in edges.prompt
    assert (second["instructions"], second["temperature"], second["tools"]) == (None, 1.0, [])


async def test_the_next_turn_finds_the_last_one_on_any_replica(edges: Edges) -> None:
    async def talk(name: str) -> None:
        previous = None
        for number in range(8):
            asked = {"model": "m", "input": f"{name}{number}.", "previous_response_id": previous}
            async with edges.https[number % 2].stream(**asked) as stream:
                async for event in stream:
                    if event["type"] == events.COMPLETED:
                        previous = event["response"]["id"]
                        break
        assert previous is not None
        chain = (await edges.http.get(f"/v1/responses/{previous}/chain")).json
        assert len(chain["data"]) == 8

    await asyncio.gather(*(talk(name) for name in "abcd"))


# ---- Storage ----


async def test_stored_responses_and_conversations_can_be_read_back(edges: Edges) -> None:
    said = await edges.create(store=True)
    assert (await edges.https[1].get(f"/v1/responses/{said['id']}")).json == said
    conversation = (await edges.http.post("/v1/conversations", {})).json["id"]
    for text in ("one", "two"):
        told = await edges.create(input=text, conversation=conversation)
        assert told["conversation"] == {"id": conversation}
    listed = (await edges.https[1].get(f"/v1/conversations/{conversation}/items?order=asc")).json
    assert texts(listed["data"]) == ["one", "Hello there.", "two", "Hello there."]


@pytest.mark.parametrize("stream", [False, True])
async def test_an_unstored_response_cannot_be_read_or_continued(edges: Edges, stream: bool) -> None:
    answer = await edges.http.create(model="m", input="secret", store=False, stream=stream)
    said = answer.events[-1]["response"] if stream else answer.json
    assert said["store"] is False
    path = f"/v1/responses/{said['id']}"
    for each in (path, path + "/input_items", path + "?stream=true"):
        assert (await edges.http.get(each)).status == 404
    chained = await edges.http.create(model="m", input="hi", previous_response_id=said["id"])
    assert (chained.status, chained.error["code"]) == (400, "previous_response_not_found")
    item = {"type": "item_reference", "id": said["output"][0]["id"]}
    assert (await edges.http.create(model="m", input=[item])).status == 404


async def test_sealed_reasoning_is_accepted_only_under_its_own_key(edges: Edges) -> None:
    edges.engine.set_output("<think>", "It is a secret.", "</think>", "Yes.")
    asked: dict[str, Any] = {"store": False, "include": ["reasoning.encrypted_content"]}
    first = await edges.create(**asked)
    reasoning, message = first["output"]
    blob = {
        "type": "reasoning",
        "id": reasoning["id"],
        "summary": [],
        "encrypted_content": reasoning["encrypted_content"],
    }
    history = [{"role": "user", "content": "hi"}, blob, message, {"role": "user", "content": "And?"}]
    second = await edges.http.create(model="m", input=history, **asked)
    assert second.status == 200
    elsewhere = await edges.https[1].create(model="m", input=history, **asked)  # another edge has another key
    assert (elsewhere.status, elsewhere.error["code"]) == (400, "invalid_encrypted_content")


async def test_input_items_come_in_pages(edges: Edges) -> None:
    said = await edges.create(input=[{"role": "user", "content": str(number)} for number in range(30)])
    path = f"/v1/responses/{said['id']}/input_items"
    whole = (await edges.http.get(path)).json
    assert (len(whole["data"]), whole["has_more"], whole["object"]) == (20, True, "list")
    few = (await edges.http.get(path + "?limit=7&order=asc")).json
    assert (texts(few["data"]), few["has_more"]) == ([str(number) for number in range(7)], True)
    rest = (await edges.http.get(f"{path}?limit=100&order=asc&after={few['last_id']}")).json
    assert (texts(rest["data"]), rest["has_more"]) == ([str(number) for number in range(7, 30)], False)


async def test_two_turns_of_a_conversation_do_not_mix(edges: Edges) -> None:
    conversation = (await edges.http.post("/v1/conversations", {})).json["id"]
    asked = {"model": "m", "conversation": conversation}
    answers = await asyncio.gather(*(edges.https[n % 2].create(**asked, input=f"q{n}") for n in range(8)))
    served = [n for n, answer in enumerate(answers) if answer.status == 200]
    assert served
    assert {answer.error["code"] for answer in answers if answer.status != 200} <= {"conversation_locked"}
    items = texts((await edges.http.get(f"/v1/conversations/{conversation}/items?order=asc&limit=100")).json["data"])
    assert sorted(items[::2]) == [f"q{n}" for n in served]
    assert items[1::2] == ["Hello there."] * len(served)


# ---- Streams ----


async def test_a_stream_has_all_its_events_lines_and_numbers(edges: Edges) -> None:
    edges.engine.set_output("<think>", "Hm.", "</think>", "I look.", *CALL)
    answer = await edges.http.create(model="m", input="hi", stream=True, tools=[WEATHER])
    frames = answer.body.removesuffix(b"data: [DONE]\n\n").split(b"\n\n")[:-1]
    for number, (frame, event) in enumerate(zip(frames, answer.events, strict=True)):
        assert frame.startswith(f"event: {event['type']}\ndata: ".encode())
        assert event["sequence_number"] == number
    kinds = [event["type"] for event in answer.events if not event["type"].endswith(".delta")]
    assert kinds == [
        events.CREATED,
        events.IN_PROGRESS,
        *(events.OUTPUT_ITEM_ADDED, events.CONTENT_PART_ADDED, events.REASONING_TEXT_DONE),
        *(events.CONTENT_PART_DONE, events.OUTPUT_ITEM_DONE),
        *(events.OUTPUT_ITEM_ADDED, events.CONTENT_PART_ADDED, events.OUTPUT_TEXT_DONE),
        *(events.CONTENT_PART_DONE, events.OUTPUT_ITEM_DONE),
        *(events.OUTPUT_ITEM_ADDED, events.FUNCTION_CALL_ARGUMENTS_DONE, events.OUTPUT_ITEM_DONE),
        events.COMPLETED,
    ]
    assert answer.body.endswith(b"data: [DONE]\n\n")


async def test_items_have_one_id_in_stream_final_record_and_conversation(edges: Edges) -> None:
    edges.engine.set_output("<think>", "Hm.", "</think>", "I look.", *CALL)
    conversation = (await edges.http.post("/v1/conversations", {})).json["id"]
    log = await streamed(edges.http, tools=[WEATHER], conversation=conversation)
    ended = log[-1]["response"]
    ids = [item["id"] for item in ended["output"]]
    for event in log:
        if "item_id" in event:
            assert event["item_id"] == ids[event["output_index"]]
        if "item" in event:
            assert event["item"]["id"] == ids[event["output_index"]]
    assert len(set(ids)) == 3
    assert (await edges.http.get(f"/v1/responses/{ended['id']}")).json == ended == fold(log)
    listed = (await edges.http.get(f"/v1/conversations/{conversation}/items?order=asc")).json
    assert [item["id"] for item in listed["data"]][1:] == ids


@pytest.mark.parametrize("stream", [False, True])
async def test_a_length_finish_is_incomplete_because_of_max_output_tokens(edges: Edges, stream: bool) -> None:
    answer = await edges.http.create(model="m", input="hi", max_output_tokens=3, stream=stream)
    said = answer.events[-1]["response"] if stream else answer.json
    assert (said["status"], said["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
    assert said["output"][0]["status"] == "incomplete"
    assert said["usage"]["output_tokens"] == 3
    assert (await edges.http.get(f"/v1/responses/{said['id']}")).json == said
    validate_response(said)
    if stream:
        assert answer.events[-1]["type"] == events.INCOMPLETE


async def test_an_engine_fault_in_mid_stream_ends_the_stream_as_failed(edges: Edges) -> None:
    edges.engine.fault, edges.engine.pause_at = EngineFault("CUDA error"), 5
    answer = await edges.http.create(model="m", input="hi", stream=True)
    assert answer.status == 200
    assert [event["type"] for event in answer.events[-2:]] == [events.ERROR, events.FAILED]
    assert answer.body.endswith(b"data: [DONE]\n\n")
    ended = answer.events[-1]["response"]
    assert ended["output"][0]["content"][0]["text"] == "Hello"
    assert (await edges.http.get(f"/v1/responses/{ended['id']}")).json == ended


@pytest.mark.parametrize("losses", [[1], [2], [5, 1, 2], [9]])
async def test_a_lost_translator_in_mid_stream_is_invisible_to_the_client(edges: Edges, losses: list[int]) -> None:
    edges.translator.losses = losses
    log = await streamed(edges.http)
    assert [event["sequence_number"] for event in log] == list(range(len(log)))
    assert log[-1]["response"]["output"][0]["content"][0]["text"] == "Hello there."
    assert log[-1]["response"] == fold(log)
    whole = await streamed(edges.http)
    assert [event["type"] for event in log] == [event["type"] for event in whole]


async def test_every_error_has_the_openai_envelope(edges: Edges) -> None:
    for answer in (
        await edges.http.post("/v1/responses", b"{"),
        await edges.http.get("/v1/nothing"),
        await edges.http.ask("PUT", "/v1/responses"),
        await edges.http.get("/v1/responses/nobody"),
    ):
        assert set(answer.json) == {"error"}
        assert set(answer.error) == {"message", "type", "param", "code"}


# ---- Disconnects and background ----


@pytest.mark.parametrize("stream", [False, True])
async def test_the_engine_stops_when_the_client_disconnects(edges: Edges, stream: bool) -> None:
    edges.engine.pause_at = 5
    asking = asyncio.create_task(edges.http.create(model="m", input="hi", stream=stream))
    while not edges.engine.requests:
        await asyncio.sleep(0.01)
    asking.cancel()
    await asyncio.wait_for(edges.engine.stopped.wait(), WAIT_MAX_S)


async def test_a_stream_closed_by_its_reader_is_stored_as_cancelled(edges: Edges) -> None:
    edges.engine.pause_at = 5
    async with edges.http.stream(model="m", input="hi") as stream:
        first = await anext(stream)
    await asyncio.wait_for(edges.engine.stopped.wait(), WAIT_MAX_S)
    path = f"/v1/responses/{first['response']['id']}"
    async with asyncio.timeout(WAIT_MAX_S):
        while (answer := await edges.http.get(path)).status != 200:
            await asyncio.sleep(0.01)
    assert answer.json["status"] == "cancelled"


async def test_the_first_token_does_not_wait_for_a_full_packet(edges: Edges) -> None:
    edges.engine.pause_at = 5
    async with edges.http.stream(model="m", input="hi") as stream:
        await anext(stream)
        (connection,) = edges.servers[0]._http.connections
        assert connection.transport is not None
        its_socket = connection.transport.get_extra_info("socket")
        assert its_socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_a_background_request_is_queued_at_once(edges: Edges) -> None:
    answer = await edges.http.create(model="m", input="hi", background=True)
    assert (answer.status, answer.json["status"], answer.json["background"]) == (200, "queued", True)
    assert edges.engine.requests == []


async def test_a_background_response_survives_a_client_disconnect(edges: Edges) -> None:
    edges.engine.pause_at = 5
    async with worker(edges):
        async with edges.http.stream(model="m", input="hi", background=True) as stream:
            first = await anext(stream)
        edges.engine.go.set()
        path = f"/v1/responses/{first['response']['id']}"
        async with asyncio.timeout(WAIT_MAX_S):
            while (said := (await edges.https[1].get(path)).json)["status"] in ("queued", "in_progress"):
                await asyncio.sleep(0.02)
        assert said["status"] == "completed"
        whole = (await edges.http.get(path + "?stream=true")).events
        assert fold(whole) == said
        for after in (0, 3, len(whole) - 2):
            rest = (await edges.https[1].get(f"{path}?stream=true&starting_after={after}")).events
            assert rest == whole[after + 1 :]


async def test_resuming_a_finished_response_sends_the_remaining_events(edges: Edges) -> None:
    body, key = {"model": "m", "input": "hi", "stream": True}, {"Idempotency-Key": "k"}
    whole = (await edges.http.ask("POST", "/v1/responses", body, headers=key)).events
    path = f"/v1/responses/{whole[0]['response']['id']}?stream=true"
    rest = (await edges.https[1].get(f"{path}&starting_after=4")).events
    assert rest == whole[5:]


async def test_resuming_without_an_event_log_is_rejected(edges: Edges) -> None:
    sent = (await edges.http.create(model="m", input="hi", stream=True)).events
    path = f"/v1/responses/{sent[0]['response']['id']}?stream=true"
    again = (await edges.http.get(path)).events
    assert len(again) < len(sent)  # each text is one delta now, so the sequence numbers differ
    assert (fold(again), [event["sequence_number"] for event in again]) == (fold(sent), list(range(len(again))))
    refused = await edges.http.get(f"{path}&starting_after=10")
    assert (refused.status, refused.error["param"]) == (400, "starting_after")


# ---- Idempotency keys ----


def keyed(http: Http, key: str, **members: Any) -> Any:
    body = {"model": "m", "input": "hi"} | members
    return http.ask("POST", "/v1/responses", body, headers={"Idempotency-Key": key})


@pytest.mark.parametrize("stream", [False, True])
async def test_many_same_requests_under_one_key_are_one(edges: Edges, stream: bool) -> None:
    answers = await asyncio.gather(*(keyed(edges.https[n % 2], "k", stream=stream) for n in range(32)))
    assert {answer.status for answer in answers} == {200}
    assert len({answer.body for answer in answers}) == 1
    assert len(edges.engine.requests) == 1


async def test_a_retry_after_a_lost_connection_gets_the_same_response(edges: Edges) -> None:
    edges.engine.pause_at = 5
    lost = asyncio.create_task(keyed(edges.http, "k"))
    while not edges.engine.requests:
        await asyncio.sleep(0.01)
    lost.cancel()
    retry = asyncio.create_task(keyed(edges.https[1], "k"))
    await asyncio.sleep(0.05)
    edges.engine.go.set()
    answer = await retry
    assert (answer.status, answer.json["output"][0]["content"][0]["text"]) == (200, "Hello there.")
    assert len(edges.engine.requests) == 1
    assert (await keyed(edges.http, "k")).json == answer.json


async def test_a_rejected_request_leaves_its_key_free(edges: Edges) -> None:
    answers = await asyncio.gather(*(keyed(edges.https[n % 2], "k", model="other") for n in range(4)))
    assert {answer.status for answer in answers} == {404}
    assert (await keyed(edges.http, "k")).status == 200
