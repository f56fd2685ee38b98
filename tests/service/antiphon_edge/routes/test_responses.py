from __future__ import annotations

import asyncio
import io
import threading
from typing import Any

import aiohttp
import pytest
from openresponses_types.types import ResponseResource

from antiphon_core import events
from antiphon_core.errors import EngineUnavailable, StoreUnavailable
from antiphon_core.fold import fold
from antiphon_core.jsons import Object, dumps, loads
from antiphon_core.limits import BODY_BYTES_MAX
from antiphon_core.offload import INLINE_BYTES_MAX
from antiphon_core.ports.translator import Batch
from antiphon_core.retrying import RetryPolicy
from antiphon_edge.routes import responses as routes_responses
from antiphon_edge.sealed.reasoning import ReasoningSealer
from antiphon_edge.turns.turn_timing import TurnTiming
from antiphon_store.rows.model import Kind
from antiphon_store.service import StoreService
from tests.support.document import require
from tests.support.edge import RunningEdge, running_edge
from tests.support.http import Answer
from tests.support.in_process import worker
from tests.support.thinking_edges import thinking_edges
from tests.support.waiting import until

UNKNOWN = "resp_" + "0" * 48


async def test_create_answers_with_the_whole_response(edge: RunningEdge) -> None:
    answer = await edge.create(metadata={"a": "b"}, temperature=0)
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("application/json")
    ResponseResource.model_validate(answer.json)
    assert answer.json["output"][0]["content"][0]["text"] == "Hello there"
    assert (answer.json["metadata"], answer.json["temperature"], answer.json["status"]) == ({"a": "b"}, 0, "completed")


async def test_a_stream_is_whole_frames_with_dense_numbers_and_done_at_its_end(edge: RunningEdge) -> None:
    answer = await edge.create(stream=True)
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    frames = answer.body.split(b"\n\n")
    assert frames[-2:] == [b"data: [DONE]", b""]
    for frame, event in zip(frames, answer.events, strict=False):
        assert frame.startswith(f"event: {event['type']}\ndata: ".encode())
    assert [event["sequence_number"] for event in answer.events] == list(range(len(answer.events)))
    assert fold(answer.events) == answer.events[-1]["response"]


async def test_created_response_can_be_read_and_deleted(edge: RunningEdge) -> None:
    created = (await edge.create()).json
    path = f"/v1/responses/{created['id']}"
    assert (await edge.ask("GET", path)).json == created
    deleted = await edge.ask("DELETE", path)
    assert (deleted.status, deleted.json) == (200, {"id": created["id"], "object": "response", "deleted": True})
    assert (await edge.ask("GET", path)).status == 404
    assert (await edge.ask("DELETE", path)).status == 404


@pytest.mark.parametrize(("method", "suffix"), [("GET", ""), ("DELETE", ""), ("GET", "/input_items")])
@pytest.mark.parametrize("response_id", [UNKNOWN, "nonsense"])
async def test_unknown_ids_are_not_found(edge: RunningEdge, method: str, suffix: str, response_id: str) -> None:
    answer = await edge.ask(method, f"/v1/responses/{response_id}{suffix}")
    assert answer.status == 404
    assert answer.error == {
        "message": f"Response with id '{response_id}' not found.",
        "type": "invalid_request_error",
        "param": None,
        "code": None,
    }


async def test_reasoning_without_a_summary_is_listed_with_an_empty_one(edge: RunningEdge) -> None:
    thought = {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "Hm."}]}
    turn = [{"role": "user", "content": "a"}, thought, {"role": "user", "content": "b"}]
    conversation = (await edge.ask("POST", "/v1/conversations", {"items": [thought]})).json
    response = (await edge.create(input=turn)).json
    for path in (f"/v1/responses/{response['id']}/input_items", f"/v1/conversations/{conversation['id']}/items"):
        items = (await edge.ask("GET", path)).json["data"]
        assert [item["summary"] for item in items if item["type"] == "reasoning"] == [[]]


async def test_input_items_are_this_turns_own_and_paged(edge: RunningEdge) -> None:
    first = (await edge.create(input="before")).json
    turn = [{"role": "user", "content": text} for text in ("a", "b", "c")]
    second = (await edge.create(input=turn, previous_response_id=first["id"])).json
    path = f"/v1/responses/{second['id']}/input_items"
    page = (await edge.ask("GET", path + "?limit=2&order=asc")).json
    assert [item["content"][0]["text"] for item in page["data"]] == ["a", "b"]
    assert (page["object"], page["has_more"]) == ("list", True)
    assert (page["first_id"], page["last_id"]) == (page["data"][0]["id"], page["data"][1]["id"])
    rest = (await edge.ask("GET", f"{path}?order=asc&after={page['last_id']}")).json
    assert [item["content"][0]["text"] for item in rest["data"]] == ["c"]
    assert rest["has_more"] is False
    newest_first = (await edge.ask("GET", path)).json
    assert [item["content"][0]["text"] for item in newest_first["data"]] == ["c", "b", "a"]


@pytest.mark.parametrize(
    ("query", "param", "code"),
    [
        ("limit=0", "limit", "integer_below_min_value"),
        ("limit=101", "limit", "integer_above_max_value"),
        ("limit=some", "limit", "invalid_type"),
        ("order=up", "order", "invalid_value"),
        ("after=msg_other", "after", "invalid_value"),
    ],
)
async def test_bad_page_parameters_are_rejected_by_name(edge: RunningEdge, query: str, param: str, code: str) -> None:
    created = (await edge.create()).json
    answer = await edge.ask("GET", f"/v1/responses/{created['id']}/input_items?{query}")
    assert answer.status == 400
    assert (answer.error["param"], answer.error["code"]) == (param, code)


@pytest.mark.parametrize(
    ("body", "status", "param", "code"),
    [
        (b'{"model": "m", "inp', 400, None, None),
        (b"", 400, None, None),
        (b"[]", 400, None, "invalid_type"),
        ({"model": "m", "input": 42}, 400, "input", "invalid_type"),
        ({"input": "hi"}, 400, "model", "missing_required_parameter"),
        ({"model": "m", "input": "hi", "foo": 1}, 400, "foo", "unknown_parameter"),
        ({"model": "m", "input": "hi", "prompt": {"id": "p"}}, 404, "prompt.id", None),
        ({"model": "other", "input": "hi"}, 404, "model", "model_not_found"),
        (
            {"model": "m", "input": "hi", "previous_response_id": UNKNOWN},
            400,
            "previous_response_id",
            "previous_response_not_found",
        ),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_bad_request_is_rejected_before_the_stream(
    edge: RunningEdge, body: Any, status: int, param: str | None, code: str | None, stream: bool
) -> None:
    answer = await edge.ask("POST", "/v1/responses", body | {"stream": stream} if isinstance(body, dict) else body)
    assert answer.status == status
    assert set(answer.error) == {"message", "type", "param", "code"}
    assert (answer.error["type"], answer.error["param"], answer.error["code"]) == ("invalid_request_error", param, code)
    assert edge.translator.turns == []


async def test_body_over_the_limit_is_rejected(edge: RunningEdge) -> None:
    answer = await edge.ask("POST", "/v1/responses", io.BytesIO(b" " * (BODY_BYTES_MAX + 1)))
    assert (answer.status, answer.error["code"]) == (413, "request_too_large")


async def test_an_engine_fault_is_a_status_without_streaming_and_an_event_with(edge: RunningEdge) -> None:
    edge.translator.fault = EngineUnavailable("no Triton at 127.0.0.1:8001")
    answer = await edge.create()
    assert (answer.status, answer.error["type"], answer.headers["retry-after"]) == (503, "server_error", "1")
    streamed = await edge.create(stream=True)
    assert streamed.status == 200
    assert [event["type"] for event in streamed.events[-2:]] == [events.ERROR, events.FAILED]
    assert streamed.body.endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_goes_away_stops_the_translator(edge: RunningEdge, stream: bool) -> None:
    edge.translator.hang = True
    asking = asyncio.create_task(edge.create(stream=stream))
    await until(lambda: bool(edge.translator.turns), "the turn")
    await asyncio.sleep(0.05)
    asking.cancel()
    await asyncio.wait_for(edge.translator.closed.wait(), 30)


async def test_streaming_a_stored_response_replays_it(edge: RunningEdge) -> None:
    created = (await edge.create()).json
    answer = await edge.ask("GET", f"/v1/responses/{created['id']}?stream=true")
    assert (answer.status, answer.events[-1]["response"]) == (200, created)


async def test_response_without_an_event_log_is_replayed_but_not_resumed(edge: RunningEdge) -> None:
    created = (await edge.create(stream=True)).events[-1]["response"]
    path = f"/v1/responses/{created['id']}?stream=true"
    for after in (0, 5, 99):
        answer = await edge.ask("GET", f"{path}&starting_after={after}")
        assert (answer.status, answer.error["param"]) == (400, "starting_after")
        assert answer.error["code"] == "unsupported_parameter"
    whole = (await edge.ask("GET", path)).events
    assert fold(whole) == created


async def test_stream_of_a_keyed_turn_is_resumed_after_any_event(edge: RunningEdge) -> None:
    body, key = {"model": "m", "input": "hi", "stream": True}, {"Idempotency-Key": "k"}
    told = (await edge.ask("POST", "/v1/responses", body, headers=key)).body
    frames = [frame + b"\n\n" for frame in told.split(b"\n\n")[:-1]]
    path = f"/v1/responses/{events.decode(told)[0]['response']['id']}?stream=true"
    assert (await edge.ask("GET", path)).body == told
    for after in range(len(frames) - 1):
        assert (await edge.ask("GET", f"{path}&starting_after={after}")).body == b"".join(frames[after + 1 :])


@pytest.mark.parametrize("members", [{}, {"stream": True}, {"background": True}])
async def test_deleted_response_of_a_keyed_turn_is_created_anew(edge: RunningEdge, members: Object) -> None:
    async def post(text: str) -> Answer:
        body = {"model": "m", "input": text} | members
        return await edge.ask("POST", "/v1/responses", body, headers={"Idempotency-Key": "k"})

    async def ask() -> str:
        answer = await post("hi")
        assert answer.status == 200
        made = answer.events[0]["response"] if answer.events else answer.json
        return str(made["id"])

    first = await ask()
    assert await ask() == first
    assert (await edge.ask("DELETE", f"/v1/responses/{first}")).status == 200
    second = await ask()
    assert second != first
    assert await ask() == second
    assert (await edge.ask("GET", f"/v1/responses/{first}")).status == 404
    other = await post("something else")
    assert (other.status, other.error["code"]) == (409, "idempotency_key_reused")


async def test_phases_of_messages_are_stored_and_an_invalid_phase_is_rejected(edge: RunningEdge) -> None:
    given: list[Object] = [
        {"role": "assistant", "content": "Looking.", "phase": "commentary"},
        {"role": "assistant", "content": "Found.", "phase": None},
        {"role": "user", "content": "What?"},
    ]
    created = (await edge.create(input=given)).json
    listed = (await edge.ask("GET", f"/v1/responses/{created['id']}/input_items?order=asc")).json["data"]
    assert [item.get("phase", "none") for item in listed] == ["commentary", "none", "none"]
    await edge.create(previous_response_id=created["id"])
    assert loads(edge.translator.turns[-1].history)[0]["phase"] == "commentary"
    refused = await edge.create(input=[given[0] | {"phase": "aside"}])
    assert (refused.status, refused.error["param"]) == (400, "input[0].phase")


async def test_a_background_response_is_queued_followed_and_cancelled(edge: RunningEdge) -> None:
    created = await edge.create(background=True)
    assert (created.status, created.json["status"], created.json["background"]) == (200, "queued", True)
    path = f"/v1/responses/{created.json['id']}"
    assert (await edge.ask("GET", path)).json == created.json
    following = asyncio.create_task(edge.ask("GET", f"{path}?stream=true&starting_after=0"))
    await asyncio.sleep(0.05)
    cancelled = (await edge.ask("POST", path + "/cancel")).json
    told = await following
    assert [event["type"] for event in told.events] == [events.QUEUED]
    assert told.body.endswith(b"data: [DONE]\n\n")
    assert (await edge.ask("GET", path)).json == cancelled
    assert (cancelled["status"], cancelled["completed_at"], cancelled["usage"]) == ("cancelled", None, None)
    assert (await edge.ask("POST", path + "/cancel")).json == cancelled


async def test_no_stream_says_that_a_response_was_cancelled(edge: RunningEdge) -> None:
    created = (await edge.create(background=True)).json
    path = f"/v1/responses/{created['id']}"
    await edge.ask("POST", path + "/cancel")
    whole = await edge.ask("GET", f"{path}?stream=true")
    assert [event["type"] for event in whole.events] == [events.CREATED, events.QUEUED]
    assert (await edge.ask("GET", f"{path}?stream=true&starting_after=1")).body == b"data: [DONE]\n\n"
    await edge.backend.lose("default", Kind.LOG, created["id"])
    again = await edge.ask("GET", f"{path}?stream=true")
    assert [event["type"] for event in again.events] == [events.CREATED, events.IN_PROGRESS]
    assert again.body.endswith(b"data: [DONE]\n\n")


async def test_stream_without_new_events_begins_and_is_kept_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes_responses, "ANSWER_S", 0.02)
    async with running_edge(keep_alive_s=0.02) as edge:
        created = (await edge.create(background=True)).json
        url = f"{edge.http.url}/v1/responses/{created['id']}?stream=true&starting_after=1"
        async with asyncio.timeout(30), edge.http.session.get(url) as answer:
            assert answer.status == 200
            assert await answer.content.readline() == b": keep-alive\n"


@pytest.mark.parametrize(
    ("key", "status", "message"),
    [({}, 404, "not found"), ({"Idempotency-Key": "k"}, 400, "Cannot cancel a synchronous response.")],
    ids=["known to its edge alone", "known to the store"],
)
async def test_all_edges_reject_the_cancellation_of_a_synchronous_response_alike(
    key: dict[str, str], status: int, message: str
) -> None:
    async with thinking_edges("Hello there.", count=2) as edges:
        edges.engine.pause_at = 3
        body = {"model": "m", "input": "hi"}
        asking = asyncio.create_task(edges.http.ask("POST", "/v1/responses", body, headers=key))
        await until(lambda: bool(edges.engine.requests), "the generation")
        path = f"/v1/responses/{edges.translator.turns[0].response_id}"
        for http in edges.https:
            refused = await http.post(f"{path}/cancel", b"")
            assert refused.status == status
            assert message in refused.error["message"]
        edges.engine.go.set()
        assert (await asking).json["status"] == "completed"
        for http in edges.https:
            assert (await http.post(f"{path}/cancel", b"")).status == 400
        assert (await edges.https[1].ask("DELETE", path)).status == 200
        for http in edges.https:
            assert (await http.post(f"{path}/cancel", b"")).status == 404


@pytest.mark.parametrize(
    ("method", "suffix", "status", "param"),
    [
        ("POST", "/cancel", 400, None),
        ("GET", "?starting_after=1", 400, "starting_after"),
        ("GET", "?stream=true&starting_after=x", 400, "starting_after"),
        ("GET", "?stream=maybe", 400, "stream"),
    ],
)
async def test_invalid_request_about_a_response_is_rejected(
    edge: RunningEdge, method: str, suffix: str, status: int, param: str | None
) -> None:
    created = (await edge.create()).json
    answer = await edge.ask(method, f"/v1/responses/{created['id']}{suffix}")
    assert (answer.status, answer.error["param"]) == (status, param)
    assert answer.error["type"] == "invalid_request_error"


# ---- Included content and broken streams ----

SEALED = "reasoning.encrypted_content"
THOUGHTFUL = ("<think>", "Hm.", "</think>", "Ja.")


@pytest.mark.parametrize("name", ["include", "include[]"])
async def test_stored_reasoning_is_sealed_for_a_later_read_that_includes_it(name: str) -> None:
    async with thinking_edges(*THOUGHTFUL) as edges:
        created = await edges.create()
        path = f"/v1/responses/{created['id']}"
        assert (await edges.http.get(path)).json == created
        read = (await edges.http.get(f"{path}?{name}={SEALED}&{name}=message.output_text.logprobs")).json
        require("Response", read)
        thought, message = read["output"]
        assert {key: value for key, value in thought.items() if key != "encrypted_content"} == created["output"][0]
        assert (message, read | {"output": created["output"]}) == (created["output"][1], created)
        bare = {"type": "reasoning", "summary": [], "encrypted_content": thought["encrypted_content"]}
        await edges.create(input=[bare, message, {"role": "user", "content": "And?"}], store=False)
        opened = loads(edges.translator.turns[-1].input)[0]
        assert opened["content"] == [{"type": "reasoning_text", "text": "Hm."}]


async def test_stored_seal_is_returned_unchanged() -> None:
    async with thinking_edges(*THOUGHTFUL) as edges:
        created = await edges.create(include=[SEALED])
        assert "encrypted_content" in created["output"][0]
        path = f"/v1/responses/{created['id']}"
        for query in ("", f"?include={SEALED}"):
            assert (await edges.http.get(path + query)).json == created


@pytest.mark.parametrize("key", [None, "k"])
async def test_replay_of_stored_reasoning_has_one_seal(key: str | None) -> None:
    async with thinking_edges(*THOUGHTFUL) as edges:
        headers = {} if key is None else {"Idempotency-Key": key}
        body = {"model": "m", "input": "hi"}
        created = (await edges.http.ask("POST", "/v1/responses", body, headers=headers)).json
        path = f"/v1/responses/{created['id']}?stream=true"
        log = (await edges.http.get(f"{path}&include={SEALED}")).events
        ended = log[-1]["response"]
        assert "encrypted_content" in ended["output"][0]
        assert fold(log) == ended
        assert ended["output"][0] in [event.get("item") for event in log]
        assert b"encrypted_content" not in (await edges.http.get(path)).body


async def test_reasoning_in_input_items_is_sealed_on_request() -> None:
    async with thinking_edges(*THOUGHTFUL) as edges:
        first = await edges.create()
        given = [*first["output"], {"type": "reasoning", "summary": []}, {"role": "user", "content": "And?"}]
        second = await edges.create(input=given, store=True)
        path = f"/v1/responses/{second['id']}/input_items?order=asc"
        plain = (await edges.http.get(path)).json["data"]
        sealed = (await edges.http.get(f"{path}&include[]={SEALED}")).json["data"]
        assert ["encrypted_content" in item for item in sealed] == [True, False, False, False]
        assert [sealed[0] | {"encrypted_content": None}, *sealed[1:]] == [
            plain[0] | {"encrypted_content": None},
            *plain[1:],
        ]


@pytest.mark.parametrize("suffix", ["?", "?stream=true&", "/input_items?"])
@pytest.mark.parametrize("name", ["include", "include[]"])
async def test_invalid_include_is_rejected(edge: RunningEdge, suffix: str, name: str) -> None:
    created = (await edge.create()).json
    answer = await edge.ask("GET", f"/v1/responses/{created['id']}{suffix}{name}=everything")
    assert (answer.status, answer.error["param"], answer.error["code"]) == (400, "include", "invalid_value")


async def away(*_arguments: object) -> None:
    raise StoreUnavailable("An injected fault.")


async def test_stream_broken_by_a_store_outage_is_incomplete_and_can_be_resumed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    brief = TurnTiming(follow_retry=RetryPolicy(for_s=0.1, first_s=0.02))
    monkeypatch.setattr("antiphon_edge.server.TurnTiming", lambda **_: brief)
    async with thinking_edges("<think>", "Hm.", "</think>", "Hello there.", count=2) as edges, worker(edges):
        edges.engine.pause_at = 6
        made = await edges.create(background=True)
        where = f"/v1/responses/{made['id']}?stream=true"
        async with asyncio.timeout(30), edges.http.session.get(edges.http.url + where) as answer:
            heard = await answer.content.readuntil(b"output_text.delta")
            with monkeypatch.context() as breaking, pytest.raises(aiohttp.ClientPayloadError, match="not completed"):
                breaking.setattr(StoreService, "_read_log", away)
                while chunk := await answer.content.readany():
                    heard += chunk
        assert b"HTTP/1.1" not in heard
        edges.engine.go.set()
        told = events.decode(heard.rpartition(b"\n\n")[0] + b"\n\n")
        rest = (await edges.https[1].get(f"{where}&starting_after={told[-1]['sequence_number']}")).events
        numbers = [event["sequence_number"] for event in [*told, *rest]]
        assert numbers == list(range(len(numbers)))
        assert "An injected fault." in caplog.text


async def test_a_large_replay_is_sealed_outside_the_event_loop(
    edge: RunningEdge, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []

    def noted(_sealer: ReasoningSealer, batch: Batch) -> Batch:
        threads.append(threading.current_thread())
        return batch

    monkeypatch.setattr(ReasoningSealer, "__call__", noted)
    edge.translator.words = ["x" * INLINE_BYTES_MAX]
    response_id = (await edge.create()).json["id"]
    answer = await edge.ask("GET", f"/v1/responses/{response_id}?stream=true&include={SEALED}")
    assert answer.events[-1]["response"]["id"] == response_id
    assert len(threads) == 1
    assert threading.current_thread() not in threads


@pytest.mark.parametrize(("members", "headers"), [({"background": True}, {}), ({}, {"Idempotency-Key": "k"})])
async def test_a_turn_too_large_for_a_job_is_rejected_without_internal_names(
    edge: RunningEdge, members: Object, headers: Object
) -> None:
    text, previous_id = "x" * (BODY_BYTES_MAX - 1_000), None
    for _ in range(2):
        answer = await edge.ask("POST", "/v1/responses", body_of(input=text, previous_response_id=previous_id))
        previous_id = answer.json["id"]
    body = body_of(input="hi", previous_response_id=previous_id, instructions="y" * 10_000, **members)
    answer = await edge.ask("POST", "/v1/responses", body, headers=headers)
    assert (answer.status, answer.error["code"], answer.error["param"]) == (413, "request_too_large", None)
    assert "payload" not in answer.error["message"]


async def test_instructions_too_large_for_an_event_log_are_rejected_without_internal_names(edge: RunningEdge) -> None:
    body = body_of(input="hi", instructions="x" * (BODY_BYTES_MAX - 300), background=True)
    answer = await edge.ask("POST", "/v1/responses", body)
    assert (answer.status, answer.error["code"], answer.error["param"]) == (413, "request_too_large", None)
    assert "frames" not in answer.error["message"]


def body_of(**members: Any) -> io.BytesIO:
    """A large request, which aiohttp's client sends in pieces."""
    return io.BytesIO(dumps({"model": "m"} | members))
