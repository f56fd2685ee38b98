"""Deleting the response or conversation of a running turn: the turn keeps its output, or fails with a clear error."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from antiphon_core.jsons import Object
from tests.support.http import Answer, Http
from tests.support.in_process import worker
from tests.support.thinking_edges import Edges, thinking_edges
from tests.support.waiting import WAIT_MAX_S

ANSWER = "Rome, it is."
QUESTION = "And of France?"


@pytest.fixture
async def edges() -> AsyncIterator[Edges]:
    async with thinking_edges(ANSWER) as running:
        yield running


@asynccontextmanager
async def in_mid_run(edges: Edges, asking: Awaitable[Answer]) -> AsyncIterator[asyncio.Future[Answer]]:
    """A turn whose model waits behind its first token until the block is left."""
    before = len(edges.engine.requests)
    edges.engine.pause_at = 1
    turn = asyncio.ensure_future(asking)
    async with asyncio.timeout(WAIT_MAX_S):
        while len(edges.engine.requests) == before:
            await asyncio.sleep(0.01)
    try:
        yield turn
    finally:
        edges.engine.go.set()
        await turn


async def delete(http: Http, path: str) -> Answer:
    return await http.ask("DELETE", path)


def response_of(answer: Answer) -> Object:
    """The final response of a JSON answer or of a stream."""
    assert answer.status == 200, answer.body
    is_stream = answer.headers["content-type"].startswith("text/event-stream")
    told: Object = answer.events[-1]["response"] if is_stream else answer.json
    return told


Ask = Callable[[Http, Object], Awaitable[Answer]]
WAYS: dict[str, Ask] = {
    "JSON": lambda http, asked: http.post("/v1/responses", asked),
    "stream": lambda http, asked: http.post("/v1/responses", asked | {"stream": True}),
    "key": lambda http, asked: http.ask("POST", "/v1/responses", asked, headers={"Idempotency-Key": "k"}),
}


@pytest.mark.parametrize("ask", WAYS.values(), ids=WAYS)
async def test_a_turn_completes_when_its_previous_response_is_deleted(edges: Edges, ask: Ask) -> None:
    first = (await edges.create(input="Capital of Italy?"))["id"]
    asked: Object = {"model": "m", "input": QUESTION, "previous_response_id": first}
    async with in_mid_run(edges, ask(edges.http, asked)) as turn:
        assert (await delete(edges.http, f"/v1/responses/{first}")).status == 200
    told = response_of(turn.result())
    assert (told["status"], told["previous_response_id"]) == ("completed", first)
    assert (await edges.http.get(f"/v1/responses/{told['id']}")).json == told
    await edges.create(input="Thanks.", previous_response_id=told["id"])
    places = [edges.prompt.index(text) for text in ("Capital of Italy?", ANSWER, QUESTION, "Thanks.")]
    assert places == sorted(places)
    assert (await edges.http.get(f"/v1/responses/{first}")).status == 404
    if ask is WAYS["key"]:
        assert response_of(await ask(edges.http, asked)) == told


async def ended(http: Http, response_id: str) -> Object:
    """Waits until a background response has ended, and returns it."""
    async with asyncio.timeout(WAIT_MAX_S):
        while (told := (await http.get(f"/v1/responses/{response_id}")).json)["status"] in ("queued", "in_progress"):
            await asyncio.sleep(0.01)
    return dict(told)


@pytest.mark.parametrize("last", ["an item", "a deleted response"])
async def test_a_background_turn_reads_a_history_that_only_its_conversation_has(edges: Edges, last: str) -> None:
    seed: Object = {"items": [{"role": "user", "content": "Capital of Italy?"}]}
    talk = (await edges.http.post("/v1/conversations", seed if last == "an item" else {})).json["id"]
    if last == "a deleted response":
        first = (await edges.create(input="Capital of Italy?", conversation=talk))["id"]
        assert (await delete(edges.http, f"/v1/responses/{first}")).status == 200
    turn = await edges.create(input=QUESTION, conversation=talk, background=True)
    async with worker(edges):
        assert (await ended(edges.http, turn["id"]))["status"] == "completed"
    assert edges.prompt.index("Capital of Italy?") < edges.prompt.index(QUESTION)


LOCKED = {
    "message": "Another process is currently operating on this conversation. Please retry in a few seconds.",
    "type": "invalid_request_error",
    "param": "conversation",
    "code": "conversation_locked",
}


@pytest.mark.parametrize("ask", WAYS.values(), ids=WAYS)
async def test_a_conversation_is_not_deleted_under_a_turn(edges: Edges, ask: Ask) -> None:
    talk = (await edges.http.post("/v1/conversations", {})).json["id"]
    async with in_mid_run(edges, ask(edges.http, {"model": "m", "input": "hi", "conversation": talk})) as turn:
        refused = await delete(edges.http, f"/v1/conversations/{talk}")
        assert (refused.status, refused.error) == (400, LOCKED)
    assert response_of(turn.result())["status"] == "completed"
    assert len((await edges.http.get(f"/v1/conversations/{talk}/items")).json["data"]) == 2
    assert (await delete(edges.http, f"/v1/conversations/{talk}")).status == 200
    assert (await edges.http.get(f"/v1/conversations/{talk}")).status == 404


async def test_a_conversation_is_deleted_when_its_background_turn_was_cancelled(edges: Edges) -> None:
    talk = (await edges.http.post("/v1/conversations", {})).json["id"]
    turn = (await edges.create(conversation=talk, background=True))["id"]
    refused = await delete(edges.http, f"/v1/conversations/{talk}")
    assert (refused.status, refused.error) == (400, LOCKED)
    assert (await edges.http.post(f"/v1/responses/{turn}/cancel", {})).json["status"] == "cancelled"
    assert (await delete(edges.http, f"/v1/conversations/{talk}")).status == 200


@pytest.mark.parametrize("ask", [WAYS["JSON"], WAYS["stream"]], ids=["JSON", "stream"])
async def test_a_turn_with_a_deleted_conversation_fails_without_internal_words(edges: Edges, ask: Ask) -> None:
    talk = (await edges.http.post("/v1/conversations", {})).json["id"]
    async with in_mid_run(edges, ask(edges.http, {"model": "m", "input": "hi", "conversation": talk})) as turn:
        lease = (await edges.store.describe_session("default", talk)).lease
        assert lease is not None
        await edges.store.release_session("default", lease.fence)  # as the expiry does when an edge sleeps for too long
        assert (await delete(edges.http, f"/v1/conversations/{talk}")).status == 200
    answer = turn.result()
    if answer.status == 200:
        assert (answer.events[-1]["type"], answer.events[-1]["response"]["status"]) == ("response.failed", "failed")
    assert not {"fence", "lease", "stale"} & set(answer.body.decode().lower().replace("_", " ").split())
    assert b"may have continued" in answer.body
