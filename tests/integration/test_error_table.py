"""Errors over HTTP: every row of OpenAI's table of errors, through edge, store and translator."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from antiphon_core import events
from antiphon_core.error_forms import envelope
from antiphon_core.errors import (
    AntiphonError,
    EngineFault,
    EngineTimeout,
    EngineUnavailable,
    InvalidRequest,
    row_of,
)
from antiphon_core.ids import RandomIds, new_conversation_id
from antiphon_core.jsons import Object, dumps
from antiphon_store.testing.faulty import Fault, When
from tests.support.api_keys import KeyFiles, bearer
from tests.support.http import Answer, Http
from tests.support.reasoning_model import TOKENIZER
from tests.support.scripted_system import scripted_system
from tests.support.small_vocabulary import ids_of
from tests.support.thinking_edges import Edges, thinking_edges

UNKNOWN = "resp_" + "0" * 48
NO_CONVERSATION = new_conversation_id(RandomIds())
TOO_LONG = "x" * 100_001
ITEM_GONE = (
    "Item with id 'rs_1' not found. Items are not persisted when `store` is set to false. Try again with `store` set "
    "to true, or remove this item from your input."
)
CALLED: list[Object] = [
    {"role": "user", "content": "Rome?"},
    {"type": "function_call", "call_id": "call_x", "name": "f", "arguments": "{}"},
]


@pytest.fixture
async def edges() -> AsyncIterator[Edges]:
    async with thinking_edges("Hello there.") as running:
        yield running


def asked(**members: Any) -> Object:
    return {"model": "m", "input": "hi"} | members


def without(name: str) -> Object:
    return {member: value for member, value in asked().items() if member != name}


REQUESTS: list[tuple[str, Object | bytes, int, str | None, str | None, str]] = [
    # name, body, status, code, param, a part of the message
    ("malformed JSON", b'{"model": "m", "inp', 400, None, None, "could not be parsed as JSON"),
    ("no JSON at all", b"\xff\xfe", 400, None, None, "could not be parsed as JSON"),
    ("wrong type", asked(input=42), 400, "invalid_type", "input", "'input'"),
    ("wrong type within", asked(metadata={"a": 1}), 400, "invalid_type", "metadata.a", "expected a string"),
    (
        "missing model",
        without("model"),
        400,
        "missing_required_parameter",
        "model",
        "Missing required parameter: 'model'.",
    ),
    (
        "missing input",
        without("input"),
        400,
        "missing_required_parameter",
        "input",
        "Missing required parameter: 'input'.",
    ),
    ("unknown parameter", asked(x=1), 400, "unknown_parameter", "x", "Unknown parameter: 'x'."),
    (
        "unsupported parameter",
        asked(moderation={}),
        400,
        "unsupported_parameter",
        "moderation",
        "Unsupported parameter: 'moderation'",
    ),
    (
        "unsupported value",
        asked(tools=[{"type": "code_interpreter", "container": {}}]),
        400,
        "unsupported_value",
        "tools[0]",
        "not supported",
    ),
    ("bad enum value", asked(truncation="some"), 400, "invalid_value", "truncation", "'truncation' must be one of"),
    (
        "bad type of an item",
        asked(input=[{"type": "messsage"}]),
        400,
        "invalid_value",
        "input[0].type",
        "names no known type",
    ),
    ("too small", asked(max_output_tokens=0), 400, "integer_below_min_value", "max_output_tokens", "at least 1"),
    ("too large", asked(top_logprobs=21), 400, "integer_above_max_value", "top_logprobs", "at most 20"),
    ("too large a decimal", asked(temperature=2.5), 400, "decimal_above_max_value", "temperature", "at most 2"),
    (
        "string too long",
        asked(safety_identifier="x" * 129),
        400,
        "string_above_max_length",
        "safety_identifier",
        "at most 128",
    ),
    (
        "unknown previous response",
        asked(previous_response_id=UNKNOWN),
        400,
        "previous_response_not_found",
        "previous_response_id",
        f"Previous response with id '{UNKNOWN}' not found.",
    ),
    (
        "malformed previous response id",
        asked(previous_response_id="resp_1"),
        400,
        "previous_response_not_found",
        "previous_response_id",
        "Previous response with id 'resp_1' not found.",
    ),
    (
        "previous response and conversation",
        asked(previous_response_id=UNKNOWN, conversation=NO_CONVERSATION),
        400,
        "mutually_exclusive_parameters",
        None,
        "exclude each other",
    ),
    (
        "unknown conversation",
        asked(conversation=NO_CONVERSATION),
        404,
        None,
        None,
        f"Conversation with id '{NO_CONVERSATION}' not found.",
    ),
    ("unknown item reference", asked(input=[{"type": "item_reference", "id": "rs_1"}]), 404, None, "input", ITEM_GONE),
    (
        "output without its call",
        asked(input=[{"type": "function_call_output", "call_id": "call_x", "output": "1"}]),
        400,
        None,
        "input",
        "No tool call found for function call output with call_id call_x.",
    ),
    (
        "call without its output",
        asked(input=[*CALLED, {"role": "user", "content": "And?"}]),
        400,
        None,
        "input",
        "No tool output found for function call call_x.",
    ),
    ("input too long", asked(input=TOO_LONG), 400, "context_length_exceeded", "input", "100000"),
    ("unknown model", asked(model="other"), 404, "model_not_found", "model", "'other'"),
    (
        "foreign sealed reasoning",
        asked(input=[{"type": "reasoning", "summary": [], "encrypted_content": "gAAAAABo"}]),
        400,
        "invalid_encrypted_content",
        "input[0].encrypted_content",
        "could not be verified",
    ),
    (
        "background without store",
        asked(background=True, store=False),
        400,
        "invalid_value",
        "background",
        "'store': true",
    ),
]


def require(answer: Answer, status: int, code: str | None, param: str | None, message: str) -> None:
    """Requires the error envelope, and the headers that every answer has."""
    assert answer.status == status, answer.body
    assert set(answer.json) == {"error"}
    kind = "invalid_request_error" if status < 500 else "server_error"
    error = answer.error
    assert (error["type"], error["code"], error["param"]) == (kind, code, param)
    assert message in error["message"]
    assert set(error) == {"message", "type", "param", "code"}
    assert answer.headers["content-type"].startswith("application/json")
    assert answer.headers["x-request-id"]
    assert answer.headers["openai-version"] == "2020-10-01"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("body", "status", "code", "param", "message"), [row[1:] for row in REQUESTS], ids=[row[0] for row in REQUESTS]
)
async def test_an_invalid_request_gets_its_documented_error(
    edges: Edges, body: Any, status: int, code: str | None, param: str | None, message: str, stream: bool
) -> None:
    sent = body | {"stream": stream} if isinstance(body, dict) else body  # an error before the first event is no stream
    require(await edges.http.post("/v1/responses", sent), status, code, param, message)
    assert edges.engine.requests == []


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/responses/{}"),
        ("GET", "/v1/responses/{}?stream=true"),
        ("DELETE", "/v1/responses/{}"),
        ("POST", "/v1/responses/{}/cancel"),
        ("GET", "/v1/responses/{}/input_items"),
        ("GET", "/v1/responses/{}/chain"),
    ],
)
@pytest.mark.parametrize("response_id", [UNKNOWN, "resp_1", "a%20b"])
async def test_an_unknown_response_is_a_404(edges: Edges, method: str, path: str, response_id: str) -> None:
    answer = await edges.http.ask(method, path.format(response_id))
    require(answer, 404, None, None, "not found.")


@pytest.mark.parametrize(
    ("method", "suffix"), [("GET", ""), ("POST", ""), ("DELETE", ""), ("GET", "/items"), ("GET", "/items/msg_1")]
)
async def test_an_unknown_conversation_is_a_404(edges: Edges, method: str, suffix: str) -> None:
    body: Object | None = {"metadata": {}} if method == "POST" else None
    answer = await edges.http.ask(method, f"/v1/conversations/{NO_CONVERSATION}{suffix}", body)
    require(answer, 404, None, None, f"Conversation with id '{NO_CONVERSATION}' not found.")


async def test_a_deleted_response_is_unknown(edges: Edges) -> None:
    path = f"/v1/responses/{(await edges.create())['id']}"
    assert (await edges.http.ask("DELETE", path)).status == 200
    for method in ("GET", "DELETE"):
        require(await edges.http.ask(method, path), 404, None, None, "not found.")


async def test_cancelling_a_synchronous_response_is_rejected(edges: Edges) -> None:
    path = f"/v1/responses/{(await edges.create())['id']}/cancel"
    require(await edges.http.ask("POST", path), 400, None, None, "Cannot cancel a synchronous response.")


async def test_a_turn_in_a_busy_conversation_is_rejected_as_locked(edges: Edges) -> None:
    conversation = (await edges.http.post("/v1/conversations", {})).json["id"]
    edges.engine.pause_at = 3
    first = asyncio.create_task(edges.http.create(**asked(conversation=conversation)))
    while not edges.engine.requests:
        await asyncio.sleep(0.01)
    words = "Another process is currently operating on this conversation. Please retry in a few seconds."
    for stream in (False, True):
        answer = await edges.http.create(**asked(conversation={"id": conversation}, stream=stream))
        require(answer, 400, "conversation_locked", "conversation", words)
        assert answer.headers["x-should-retry"] == "true"
    edges.engine.go.set()
    assert (await first).status == 200
    assert (await edges.http.create(**asked(conversation=conversation))).status == 200


async def test_a_busy_conversation_can_be_waited_for() -> None:
    async with thinking_edges("Hello there.", conversation_wait_ms=30_000) as edges:
        conversation = (await edges.http.post("/v1/conversations", {})).json["id"]
        edges.engine.pause_at = 1
        turns = [asyncio.create_task(edges.create(input=word, conversation=conversation)) for word in ("One.", "Two.")]
        while not edges.engine.requests:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.05)
        assert len(edges.engine.requests) == 1
        edges.engine.go.set()
        await asyncio.gather(*turns)
        said = (await edges.http.get(f"/v1/conversations/{conversation}/items?order=asc")).json["data"]
        assert [item["role"] for item in said] == ["user", "assistant"] * 2


async def test_a_history_over_the_context_is_rejected_unless_truncated(edges: Edges) -> None:
    first = await edges.create(input="x" * 60_000)
    body = asked(input="x" * 60_000, previous_response_id=first["id"])
    require(await edges.http.create(**body), 400, "context_length_exceeded", "input", "tokens long")
    assert (await edges.http.create(**body, truncation="auto")).status == 200


async def test_an_idempotency_key_of_another_request_is_a_409(edges: Edges) -> None:
    headers = {"Idempotency-Key": "k"}
    assert (await edges.http.ask("POST", "/v1/responses", asked(), headers=headers)).status == 200
    answer = await edges.http.ask("POST", "/v1/responses", asked(input="other"), headers=headers)
    require(answer, 409, "idempotency_key_reused", "Idempotency-Key", "belongs to another request")
    assert answer.headers["x-should-retry"] == "false"
    bad = await edges.http.ask("POST", "/v1/responses", asked(), headers={"Idempotency-Key": "k" * 256})
    require(bad, 400, "invalid_value", "Idempotency-Key", "255 bytes")


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/nothing", "/v1/responses/", "/v1/responses/a/b", "/v2/responses"])
async def test_an_unknown_url_is_a_404(edges: Edges, path: str) -> None:
    require(await edges.http.get(path), 404, "unknown_url", None, f"GET {path}")


@pytest.mark.parametrize(("method", "path"), [("PUT", "/v1/responses"), ("PATCH", f"/v1/responses/{UNKNOWN}")])
async def test_a_wrong_method_is_a_405(edges: Edges, method: str, path: str) -> None:
    answer = await edges.http.ask(method, path)
    require(answer, 405, "method_not_allowed", None, method)
    assert answer.headers["allow"]


@pytest.mark.parametrize(
    ("query", "code", "param"),
    [
        ("limit=0", "integer_below_min_value", "limit"),
        ("limit=101", "integer_above_max_value", "limit"),
        ("limit=x", "invalid_type", "limit"),
        ("order=up", "invalid_value", "order"),
        ("after=msg_nobody", "invalid_value", "after"),
        ("include=everything", "invalid_value", "include"),
    ],
)
async def test_an_invalid_page_query_is_a_400(edges: Edges, query: str, code: str, param: str) -> None:
    path = f"/v1/responses/{(await edges.create())['id']}/input_items?{query}"
    require(await edges.http.get(path), 400, code, param, "'")


@pytest.mark.parametrize(
    ("query", "code", "param"),
    [
        ("stream=maybe", "invalid_value", "stream"),
        ("stream=true&starting_after=-1", "integer_below_min_value", "starting_after"),
        ("stream=true&starting_after=x", "invalid_type", "starting_after"),
        ("starting_after=1", "invalid_value", "starting_after"),
        ("stream=true&starting_after=1", "unsupported_parameter", "starting_after"),
    ],
)
async def test_an_invalid_resume_query_is_a_400(edges: Edges, query: str, code: str, param: str) -> None:
    path = f"/v1/responses/{(await edges.create())['id']}?{query}"
    require(await edges.http.get(path), 400, code, param, "'")


@pytest.mark.parametrize(
    ("fault", "status", "code"),
    [
        (EngineUnavailable("no Triton at 127.0.0.1:8001"), 503, "engine_unavailable"),
        (EngineTimeout("no token for 5 s"), 504, "engine_timeout"),
        (EngineFault("CUDA error"), 502, "engine_fault"),
    ],
)
async def test_an_engine_fault_is_a_5xx_and_ends_a_stream_as_failed(
    edges: Edges, fault: Exception, status: int, code: str
) -> None:
    edges.engine.fault, edges.engine.pause_at = fault, 3
    answer = await edges.http.create(**asked())
    require(answer, status, code, None, str(fault))
    assert ("retry-after" in answer.headers) is (status == 503)
    log = (await edges.http.create(**asked(stream=True))).events
    assert [event["type"] for event in log[-2:]] == [events.ERROR, events.FAILED]
    assert log[-2]["error"]["message"] == log[-2]["message"] == str(fault)
    assert (log[-2]["code"], log[-1]["response"]["error"]["code"]) == (code, "server_error")
    assert log[-1]["response"]["output"][0]["status"] == "incomplete"


@pytest.mark.parametrize(
    ("fault", "behind"),
    [
        (EngineUnavailable("gone in mid-answer"), 3),
        (EngineTimeout("no token for 5 s"), 3),
        (EngineFault("CUDA error"), 0),
        (InvalidRequest("Not that schema.", field="text.format", code="unsupported_value"), 0),
    ],
)
async def test_a_failed_keyed_turn_is_replayed_with_its_error(fault: AntiphonError, behind: int) -> None:
    async with thinking_edges("Hello there.", count=2) as edges:
        edges.engine.fault, edges.engine.pause_at = fault, behind
        headers = {"Idempotency-Key": "k"}
        first, second = [await http.ask("POST", "/v1/responses", asked(), headers=headers) for http in edges.https]
        assert (first.status, first.json) == (row_of(fault).http_status, envelope(fault))
        assert (second.status, second.json) == (first.status, first.json)
        assert second.headers.get("retry-after") == first.headers.get("retry-after")
        assert len(edges.engine.requests) == 1


async def test_a_keyed_turn_that_failed_without_output_can_be_retried(edges: Edges) -> None:
    edges.engine.fault, edges.engine.pause_at = EngineUnavailable("It is overloaded."), 0
    headers = {"Idempotency-Key": "k"}
    refused = await edges.http.ask("POST", "/v1/responses", asked(), headers=headers)
    require(refused, 503, "engine_unavailable", None, "overloaded")
    assert refused.headers["retry-after"] == "1"
    edges.engine.pause_at = None
    first, second = [await edges.http.ask("POST", "/v1/responses", asked(), headers=headers) for _ in range(2)]
    assert (first.status, first.json) == (200, second.json)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_too_long_background_request_is_a_400_before_it_is_queued(stream: bool) -> None:
    async with scripted_system() as system:
        answer = await system.http.create(**asked(input=TOO_LONG, background=True, stream=stream))
    require(answer, 400, "context_length_exceeded", "input", "100000")


async def test_an_internal_error_is_a_500_without_details(edges: Edges) -> None:
    edges.engine.fault, edges.engine.pause_at = ValueError("secret"), 3
    answer = await edges.http.create(**asked())
    require(answer, 500, "server_error", None, "failed on this response")
    assert b"secret" not in answer.body


Ask = Callable[[Http, Object], Awaitable[Answer]]
STORED: dict[str, Ask] = {
    "chain": lambda http, said: http.create(**asked(previous_response_id=said["id"])),
    "session": lambda http, _: http.ask("POST", "/v1/responses", asked(), headers={"x-antiphon-session": "s"}),
    "key": lambda http, _: http.ask("POST", "/v1/responses", asked(), headers={"Idempotency-Key": "k"}),
    "retrieve": lambda http, said: http.get(f"/v1/responses/{said['id']}"),
    "delete": lambda http, said: http.ask("DELETE", f"/v1/responses/{said['id']}"),
    "items": lambda http, said: http.get(f"/v1/responses/{said['id']}/input_items"),
    "background": lambda http, _: http.create(**asked(background=True)),
    "plain": lambda http, _: http.create(**asked()),
}


@pytest.mark.parametrize("ask", STORED.values(), ids=STORED)
async def test_a_request_during_a_store_outage_is_a_503(edges: Edges, ask: Ask) -> None:
    said = await edges.create()
    edges.backend.plan(*[Fault("*", When.BEFORE)] * 99)
    async with asyncio.timeout(60):
        answer = await ask(edges.http, said)
    require(answer, 503, "store_unavailable", None, "injected")
    assert answer.headers["retry-after"] == "1"


async def test_an_unstored_request_is_served_during_a_store_outage(edges: Edges) -> None:
    edges.backend.plan(*[Fault("*", When.BEFORE)] * 99)
    for stream in (False, True):
        answer = await edges.http.create(**asked(store=False, stream=stream))
        assert answer.status == 200
        assert b'"completed"' in answer.body


async def test_a_too_large_body_is_a_413_and_a_too_deep_one_a_400(edges: Edges) -> None:
    large = await edges.http.ask("POST", "/v1/responses", io.BytesIO(b" " * (10 * 2**20 + 1)))
    require(large, 413, "request_too_large", None, "larger than")
    deep = dumps(asked()).replace(b'"hi"', b"[" * 100 + b"]" * 100)
    require(await edges.http.post("/v1/responses", deep), 400, None, None, "nested deeper than")


async def test_a_wrong_api_key_is_a_401(tmp_path: Path) -> None:
    files = KeyFiles(tmp_path)
    headers = bearer(files.make("acme"))
    async with thinking_edges("Hello there.", **files.settings) as edges:
        assert (await edges.http.ask("POST", "/v1/responses", asked(), headers=headers)).status == 200
        for wrong in ({}, bearer("sk-wrong"), bearer(headers["Authorization"][-40:])):
            answer = await edges.http.ask("POST", "/v1/responses", asked(), headers=wrong)
            require(answer, 401, "invalid_api_key", None, "API key")
            assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize(("limit", "type_"), [("requests_per_minute", "requests"), ("tokens_per_minute", "tokens")])
async def test_a_request_over_the_rate_limit_is_a_429(limit: str, type_: str) -> None:
    door: dict[str, Any] = {limit: 1}
    async with thinking_edges("Hello there.", **door) as edges:
        assert (await edges.http.create(**asked())).status == 200
        answer = await edges.http.create(**asked())
        assert (answer.status, answer.error["code"], answer.error["type"]) == (429, "rate_limit_exceeded", type_)
        assert int(answer.headers["retry-after"]) >= 1
        assert int(answer.headers[f"x-ratelimit-limit-{type_}"]) == 1
        assert answer.headers[f"x-ratelimit-remaining-{type_}"] == "0"


def test_the_too_long_input_exceeds_the_context_in_tokens() -> None:
    assert len(ids_of(TOKENIZER, TOO_LONG)) > 100_000
