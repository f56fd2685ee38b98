from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import suppress

import aiohttp
import pytest
from aiohttp import WSMsgType
from openresponses_types.types import ResponseResource

from antiphon_core import events
from antiphon_core.errors import EngineUnavailable
from antiphon_core.fold import fold
from antiphon_core.jsons import loads
from antiphon_core.limits import BODY_BYTES_MAX
from antiphon_edge.callers.authentication import TENANT_HEADER
from antiphon_edge.operations.parameters import SESSION
from antiphon_edge.websocket.lanes import Phase
from tests.support.edge import RunningEdge, running_edge
from tests.support.raw_http import exchange, head
from tests.support.socket_client import Client, connected, held_responses, until_lanes

UNKNOWN = "resp_" + "0" * 48


@pytest.fixture
async def client(edge: RunningEdge) -> AsyncIterator[Client]:
    async with connected(edge) as client:
        yield client


async def test_a_response_comes_as_the_events_of_a_stream(client: Client) -> None:
    await client.send(stream=True, metadata={"a": "b"})
    told = await client.until(events.COMPLETED)
    assert [event["sequence_number"] for event in told] == list(range(len(told)))
    assert told[0]["type"] == events.CREATED
    assert fold(told) == told[-1]["response"]
    ResponseResource.model_validate(told[-1]["response"])
    assert (told[-1]["response"]["metadata"], told[-1]["response"]["store"]) == ({"a": "b"}, False)


async def test_unstored_response_is_continued_only_on_its_connection(edge: RunningEdge, client: Client) -> None:
    first = await client.ask(input="one")
    second = await client.ask(input="two", previous_response_id=first["id"])
    assert second["previous_response_id"] == first["id"]
    third = await client.ask(input="three", previous_response_id=second["id"])
    texts = [item["content"][0]["text"] for item in loads(edge.translator.turns[-1].history)]
    assert texts == ["one", "Hello there", "two", "Hello there"]
    for response in (first, second, third):
        assert (await edge.ask("GET", f"/v1/responses/{response['id']}")).status == 404
        assert (await edge.create(previous_response_id=response["id"])).error["code"] == "previous_response_not_found"
    async with connected(edge) as other:
        error = await other.refusal(previous_response_id=first["id"])
        assert (error["status"], error["code"]) == (400, "previous_response_not_found")
        assert (await other.ask())["status"] == "completed"  # on the same socket


async def test_stored_response_is_continued_from_any_connection(edge: RunningEdge, client: Client) -> None:
    first = await client.ask(input="one", store=True)
    assert (await edge.ask("GET", f"/v1/responses/{first['id']}")).json == first
    async with connected(edge) as other:
        second = await other.ask(input="two", store=None, previous_response_id=first["id"])
    third = (await edge.create(input="three", previous_response_id=second["id"])).json
    assert third["previous_response_id"] == second["id"]
    texts = [item["content"][0]["text"] for item in loads(edge.translator.turns[-1].history)]
    assert texts == ["one", "Hello there", "two", "Hello there"]


async def test_stored_turn_keeps_the_unstored_history_that_it_continued(edge: RunningEdge, client: Client) -> None:
    first = await client.ask(input="one")
    second = await client.ask(input="two", store=True, previous_response_id=first["id"])
    await edge.create(input="three", previous_response_id=second["id"])
    texts = [item["content"][0]["text"] for item in loads(edge.translator.turns[-1].history)]
    assert texts == ["one", "Hello there", "two", "Hello there"]


async def test_a_response_that_is_not_stored_continues_one_that_is(edge: RunningEdge, client: Client) -> None:
    stored = (await edge.create(input="one")).json
    first = await client.ask(input="two", previous_response_id=stored["id"])
    await client.ask(input="three", previous_response_id=first["id"])
    texts = [item["content"][0]["text"] for item in loads(edge.translator.turns[-1].history)]
    assert texts == ["one", "Hello there", "two", "Hello there"]


async def test_connection_that_keeps_the_history_sends_no_encrypted_context(client: Client) -> None:
    first = await client.ask(include=["reasoning.encrypted_content"])
    assert "encrypted_context" not in first


async def test_a_failed_continuation_forgets_what_it_continued(client: Client) -> None:
    first = await client.ask()
    assert (await client.refusal(model="other", previous_response_id=first["id"]))["code"] == "model_not_found"
    error = await client.refusal(previous_response_id=first["id"])
    assert (error["code"], error["param"]) == ("previous_response_not_found", "previous_response_id")
    assert (await client.ask())["status"] == "completed"


async def test_a_response_that_breaks_ends_as_failed_and_forgets_what_it_continued(
    edge: RunningEdge, client: Client
) -> None:
    first = await client.ask()
    edge.translator.fault = EngineUnavailable("no Triton at 127.0.0.1:8001")
    assert (await client.ask(previous_response_id=first["id"]))["status"] == "failed"
    edge.translator.fault = None
    assert (await client.refusal(previous_response_id=first["id"]))["code"] == "previous_response_not_found"


async def test_a_warm_up_can_be_continued(edge: RunningEdge, client: Client) -> None:
    system = [{"role": "developer", "content": "be brief"}]
    warm = await client.ask(input=system, generate=False)
    assert (warm["output"], warm["status"]) == ([], "completed")
    assert warm["usage"]["total_tokens"] == warm["usage"]["input_tokens"] == 3
    assert (await client.ask(previous_response_id=warm["id"]))["status"] == "completed"
    assert loads(edge.translator.turns[-1].history)[0]["content"][0]["text"] == "be brief"
    stored = await client.ask(generate=False, store=True)
    assert (await edge.ask("GET", f"/v1/responses/{stored['id']}")).json == stored
    assert (await client.refusal(generate=False, model="other"))["code"] == "model_not_found"


async def test_invalid_messages_are_rejected_while_a_response_runs(edge: RunningEdge, client: Client) -> None:
    edge.translator.hang = True
    await client.send()
    await client.until(events.OUTPUT_TEXT_DELTA)
    await client.event()
    await client.socket.send_str('{"type": "response.steer", "previous_response_id": "resp_1", "input": "stop"}')
    assert (await client.event())["error"]["code"] == "steering_not_supported"
    await client.socket.send_str("nonsense")
    assert (await client.error())["param"] == "message"
    await client.socket.send_bytes(b"{}")
    assert (await client.error())["code"] == "invalid_type"


@pytest.mark.parametrize("politely", [True, False])
async def test_a_client_that_goes_away_stops_the_model(edge: RunningEdge, politely: bool) -> None:
    edge.translator.hang = True
    async with connected(edge) as client:
        await client.send()
        await client.until(events.OUTPUT_TEXT_DELTA)
        assert not edge.translator.closed.is_set()
        if not politely:
            client.transport.abort()
    await asyncio.wait_for(edge.translator.closed.wait(), 30)


async def test_client_that_reads_nothing_is_cut_off_and_the_model_stops() -> None:
    async with running_edge(write_timeout_s=0.2) as edge:
        edge.translator.words = ["x" * 1_000_000] * 20
        async with connected(edge) as client:
            client.transport.pause_reading()
            await client.send()
            await asyncio.wait_for(edge.translator.closed.wait(), 30)
            client.transport.abort()  # the paused client cannot notice that it was cut off


async def test_each_response_counts_towards_the_limits() -> None:
    async with running_edge(requests_per_minute=3) as edge, connected(edge) as client:
        for _ in range(2):  # the connection was the first request
            assert (await client.ask())["status"] == "completed"
        error = await client.refusal()
        assert (error["status"], error["code"]) == (429, "rate_limit_exceeded")


async def test_a_silent_connection_is_pinged() -> None:
    async with running_edge(keep_alive_s=0.05) as edge, connected(edge, autoping=False) as client:
        assert (await client.socket.receive(timeout=10)).type is WSMsgType.PING


async def test_a_client_that_answers_no_ping_stops_the_model() -> None:
    async with running_edge(keep_alive_s=0.05) as edge, connected(edge, autoping=False) as client:
        edge.translator.hang = True
        await client.send()
        await asyncio.wait_for(edge.translator.closed.wait(), 30)


async def test_connection_over_its_time_limit_is_told_the_reason_and_closed() -> None:
    async with running_edge(websocket_max_s=0.05) as edge, connected(edge) as client:
        error = await client.error()
        assert (error["status"], error["code"]) == (400, "websocket_connection_limit_reached")
        assert await client.close_code() == aiohttp.WSCloseCode.OK


async def test_a_message_over_the_limit_closes_the_connection_with_the_limit_as_reason() -> None:
    async with running_edge() as edge, connected(edge) as client:
        client.transport.write(b"\x81\xff" + (BODY_BYTES_MAX + 1).to_bytes(8) + bytes(4) + b"x" * 1_000)
        closing = await client.socket.receive(timeout=30)
    assert (closing.type, closing.data) == (WSMsgType.CLOSE, aiohttp.WSCloseCode.MESSAGE_TOO_BIG)
    assert str(BODY_BYTES_MAX) in (closing.extra or "")


async def test_an_old_connection_lets_its_response_end() -> None:
    async with running_edge() as edge, connected(edge) as client:
        release = held_responses(edge)
        await client.send()
        await client.until(events.CREATED)
        (connection,) = edge.server._sockets._open
        connection.expire(60.0)
        await until_lanes(edge, lambda lanes: lanes.phase is Phase.LAST)
        await client.send()
        await until_lanes(edge, lambda lanes: bool(lanes._waiting))
        release.set()
        assert (await client.until(*events.TERMINAL))[-1]["type"] == events.COMPLETED
        assert (await client.error())["code"] == "websocket_connection_limit_reached"
        await client.close_code()


async def test_shutdown_closes_idle_connections_and_waits_for_running_responses() -> None:
    async with running_edge() as edge, connected(edge) as idle, connected(edge) as busy:
        release = held_responses(edge)
        await busy.send()
        await busy.until(events.CREATED)
        stopping = asyncio.create_task(edge.server.stop())
        assert await idle.close_code() == aiohttp.WSCloseCode.GOING_AWAY
        await busy.send(stream_id="late")
        await until_lanes(edge, lambda lanes: bool(lanes._waiting))
        release.set()
        assert (await busy.until(*events.TERMINAL))[-1]["type"] == events.COMPLETED
        assert (await busy.error())["status"] == 503
        assert await busy.close_code() == aiohttp.WSCloseCode.GOING_AWAY
        await stopping


async def test_connection_during_a_shutdown_is_rejected(edge: RunningEdge) -> None:
    edge.server._sockets.leave()
    with pytest.raises(aiohttp.WSServerHandshakeError) as raised:
        async with connected(edge):
            pass
    assert raised.value.status == 503


async def test_a_message_over_the_limit_ends_the_connection(client: Client) -> None:
    with suppress(ConnectionError):  # the server does not read the message to its end
        await client.socket.send_str(" " * (BODY_BYTES_MAX + 1))
    message = await client.socket.receive(timeout=10)
    assert message.type in (WSMsgType.CLOSE, WSMsgType.CLOSED, WSMsgType.ERROR)


async def test_response_that_outlasts_the_drain_fails_before_its_connection_is_closed() -> None:
    async with running_edge(drain_s=0.1) as edge, connected(edge) as client:
        edge.translator.hang = True
        await client.send()
        await client.until(events.OUTPUT_TEXT_DELTA)
        stopping = asyncio.create_task(edge.server.stop())
        last = (await client.until(*events.TERMINAL))[-1]
        assert last["response"]["error"]["cause"]["code"] == "server_shutting_down"
        assert await client.close_code() == aiohttp.WSCloseCode.GOING_AWAY
        await stopping
        assert edge.translator.closed.is_set()


@pytest.mark.parametrize(("version", "connection"), [(None, "Upgrade"), ("12", "Upgrade, close")])
async def test_get_without_a_valid_upgrade_is_rejected_with_426(
    edge: RunningEdge, version: str | None, connection: str
) -> None:
    asked = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": version} if version else {}
    answer = await edge.ask("GET", "/v1/responses", headers=asked)
    assert (answer.status, answer.error["type"]) == (426, "invalid_request_error")
    assert "POST" in answer.error["message"]
    assert (answer.headers["upgrade"], answer.headers["connection"]) == ("websocket", connection)
    assert answer.headers["sec-websocket-version"] == "13"
    assert (await edge.ask("GET", "/v1/models")).status == 200  # on the same connection, or on a new one


@pytest.mark.parametrize("changed", ["Upgrade", "Connection", "Sec-WebSocket-Version", "Sec-WebSocket-Key"])
async def test_upgrade_header_with_invalid_bytes_is_rejected_with_426(
    edge: RunningEdge, caplog: pytest.LogCaptureFixture, changed: str
) -> None:
    opening = {
        "Upgrade": b"websocket",
        "Connection": b"Upgrade",
        "Sec-WebSocket-Version": b"13",
        "Sec-WebSocket-Key": b"dGhlIHNhbXBsZSBub25jZQ==",
    }
    lines = [name.encode() + b": " + value + b"\xff" * (name == changed) for name, value in opening.items()]
    answer = await exchange(edge.server.url, head(b"GET /v1/responses", *lines))
    assert (answer.status, answer.error["type"]) == (426, "invalid_request_error")
    assert [record for record in caplog.records if record.levelno > logging.WARNING] == []


@pytest.mark.parametrize(
    ("origin", "is_let_in"),
    [("http://evil.example", False), ("null", False), ("http://[", False), (None, True), ("own", True)],
)
async def test_pages_of_other_hosts_may_not_connect(edge: RunningEdge, origin: str | None, is_let_in: bool) -> None:
    given = edge.http.url if origin == "own" else origin
    if is_let_in:
        async with connected(edge, origin=given) as client:
            assert (await client.ask())["status"] == "completed"
        return
    with pytest.raises(aiohttp.WSServerHandshakeError) as raised:
        async with connected(edge, origin=given):
            pass
    assert raised.value.status == 403


async def test_page_of_an_allowed_origin_may_connect() -> None:
    async with (
        running_edge(cors_origins=("http://a.example",)) as edge,
        connected(edge, origin="http://a.example") as it,
    ):
        assert (await it.ask())["status"] == "completed"


async def test_response_of_another_tenant_cannot_be_continued() -> None:
    async with running_edge(tenants=True) as edge:
        async with connected(edge, headers={TENANT_HEADER: "a"}) as client:
            stored = await client.ask(store=True)
        async with connected(edge, headers={TENANT_HEADER: "b"}) as client:
            assert (await client.refusal(previous_response_id=stored["id"]))["code"] == "previous_response_not_found"


async def test_a_session_is_continued_by_its_header(edge: RunningEdge) -> None:
    async with connected(edge, headers={SESSION.name: "s1"}) as client:
        await client.ask(input="one", store=True)
        await client.ask(input="two", store=True)
    assert [item["content"][0]["text"] for item in loads(edge.translator.turns[-1].history)] == ["one", "Hello there"]


async def test_conversation_in_the_header_is_that_of_each_message(edge: RunningEdge) -> None:
    made = (await edge.ask("POST", "/v1/conversations", {})).json["id"]
    async with connected(edge, headers={SESSION.name: made}) as client:
        assert (await client.ask(store=True))["conversation"] == {"id": made}
        assert (await client.ask(store=True, conversation=made))["conversation"] == {"id": made}
        refused = await client.refusal(store=True, conversation="conv_" + "0" * 48)
        assert (refused["code"], refused["param"]) == ("mutually_exclusive_parameters", "conversation")
    async with connected(edge, headers={SESSION.name: "conv_" + "0" * 48}) as client:
        assert (await client.refusal(store=True))["status"] == 404


async def test_unexpected_error_is_reported_and_the_connection_stays_open(
    edge: RunningEdge, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    edge.translator.words = 3  # type: ignore[assignment]
    error = await client.refusal()
    assert (error["status"], error["code"]) == (500, "server_error")
    assert "a response over a WebSocket failed" in caplog.text
    edge.translator.words = ("fine",)
    assert (await client.ask())["status"] == "completed"
