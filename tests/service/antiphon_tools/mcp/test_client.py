from __future__ import annotations

import asyncio
import json
import socket
import traceback
from functools import partial
from typing import Any

import pytest

from antiphon_core.jsons import Object
from antiphon_core.ports.tools import Progress
from antiphon_core.telemetry import correlation
from antiphon_core.telemetry.trace_context import TraceContext
from antiphon_tools.mcp.client import McpClient, Sending
from antiphon_tools.mcp.faults import AnswerLost, HttpFault, NotSent, ProtocolFault
from antiphon_tools.mcp.protocol import Stateless
from tests.support.mcp_clients import mcp_client
from tests.support.raw_mcp_server import STREAM, Asked, event, handshake, raw_server, stateless
from tests.support.waiting import until

SCHEMA: Object = {"properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
ADD = {"name": "add", "inputSchema": SCHEMA}
DONE = {"content": [{"type": "text", "text": "done"}]}


async def finish(asked: Asked) -> None:
    await asked.result(DONE)


async def call(client: McpClient, *, sending: Sending | None = None, **options: Any) -> Any:
    arguments = {"region": "eu"}
    return await client.call_tool(
        "add", arguments, SCHEMA, call_id="resp_1/call_1", sending=sending or Sending(), **options
    )


async def test_a_stateless_server_is_asked_once_for_its_era() -> None:
    async with raw_server(stateless([ADD], finish)) as server, mcp_client(server.url) as client:
        assert (await client.list_tools()).ttl_ms == 60_000
        assert await call(client) == DONE
        assert client.is_stateless
    assert server.rpcs() == ["server/discover", "tools/list", "tools/call"]
    asked = server.asked[-1]
    assert asked.headers["mcp-param-region"] == "eu"
    assert asked.headers["accept-encoding"] == "identity"
    assert asked.message["params"]["_meta"]["io.antiphon/call"] == "resp_1/call_1"


async def test_a_known_era_needs_no_probe() -> None:
    async with raw_server(stateless([ADD], finish)) as server, mcp_client(server.url, peer=Stateless()) as client:
        await call(client)
    assert server.rpcs() == ["tools/call"]


async def test_a_server_of_the_handshake_gets_its_session_back_and_is_told_the_end() -> None:
    async with raw_server(handshake([ADD], finish)) as server, mcp_client(server.url) as client:
        await asyncio.gather(client.list_tools(), call(client))
        assert not client.is_stateless
    assert sorted(server.rpcs()) == sorted(
        ["server/discover", "initialize", "notifications/initialized", "tools/list", "tools/call", "DELETE"]
    )
    for asked in [*server.named("tools/call"), server.asked[-1]]:
        assert asked.headers["mcp-session-id"] == "s-1"
        assert asked.headers["mcp-protocol-version"] == "2025-06-18"
    assert "mcp-param-region" not in server.named("tools/call")[0].headers


async def test_an_expired_session_is_made_anew_and_the_call_runs_once() -> None:
    ran: list[str] = []

    async def forget_once(asked: Asked) -> None:
        if len(server.named("tools/call")) == 1:
            await asked.reply(404)
        else:
            ran.append(asked.message["params"]["name"])
            await asked.result(DONE)

    async with raw_server(handshake([ADD], forget_once)) as server, mcp_client(server.url) as client:
        assert await call(client) == DONE
    assert ran == ["add"]
    assert server.rpcs().count("initialize") == 2


async def test_a_missing_page_of_a_server_without_sessions_is_no_expired_session() -> None:
    async def gone(asked: Asked) -> None:
        await asked.reply(404)

    async with raw_server(handshake([ADD], gone, session="")) as server, mcp_client(server.url) as client:
        with pytest.raises(HttpFault):
            await call(client)
    assert server.rpcs().count("tools/call") == 1


async def test_progress_and_requests_of_the_server_come_before_the_answer() -> None:
    async def talk(asked: Asked) -> None:
        token = asked.message["params"]["_meta"]["progressToken"]
        notice = {"method": "notifications/progress", "params": {"progressToken": token, "progress": 1, "total": 2}}
        await asked.write(STREAM, b"id: 1\ndata:\n\n", event({"jsonrpc": "2.0", **notice}))
        await asked.write(event({"jsonrpc": "2.0", "id": "p", "method": "ping"}))
        await asked.write(event({"jsonrpc": "2.0", "id": "e", "method": "elicitation/create", "params": {}}))
        await until(lambda: len(answers()) == 2, "the client answers")
        await asked.write(event({"jsonrpc": "2.0", "id": asked.message["id"], "result": DONE}))

    def answers() -> dict[str, Any]:
        return {str(each.message["id"]): each.message for each in server.asked if each.message.get("method") is None}

    seen: list[Progress] = []
    async with raw_server(handshake([ADD], talk)) as server, mcp_client(server.url) as client:
        assert await call(client, on_progress=seen.append) == DONE
        found = answers()
    assert seen == [Progress(1.0, 2.0)]
    assert found["p"]["result"] == {}
    assert found["e"]["error"]["code"] == -32_601


@pytest.mark.parametrize("era", [stateless, handshake])
async def test_a_cancelled_call_tells_the_server(era: Any) -> None:
    async def hang(asked: Asked) -> None:
        await asked.write(STREAM)
        await asked.is_closed.wait()

    async with raw_server(era([ADD], hang)) as server, mcp_client(server.url) as client:
        sending = Sending()
        running = asyncio.create_task(call(client, sending=sending))
        await until(lambda: bool(server.named("tools/call")), "the tool is called")
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert sending.is_connected
        (asked,) = server.named("tools/call")
        await asked.is_closed.wait()
        if era is handshake:
            await until(lambda: bool(server.named("notifications/cancelled")), "the server is told")
            params = server.named("notifications/cancelled")[0].message["params"]
            assert params["requestId"] == asked.message["id"]
    assert bool(server.named("notifications/cancelled")) is (era is handshake)


async def test_a_call_that_was_sent_and_has_no_answer_is_lost() -> None:
    async def cut(asked: Asked) -> None:
        asked.writer.close()

    async with raw_server(stateless([ADD], cut)) as server, mcp_client(server.url) as client:
        with pytest.raises(AnswerLost):
            await call(client)
    assert server.rpcs().count("tools/call") == 1


async def test_a_server_that_cannot_be_reached_was_sent_nothing() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        async with mcp_client(f"http://127.0.0.1:{bound.getsockname()[1]}/mcp") as client:
            for peer in (None, Stateless()):
                client._peer, sending = peer, Sending()
                with pytest.raises(NotSent):
                    await call(client, sending=sending)
                assert not sending.is_connected


async def test_a_negotiation_that_breaks_means_that_the_call_was_not_sent() -> None:
    async def cut(asked: Asked) -> None:
        asked.writer.close()

    async with raw_server(cut) as server, mcp_client(server.url) as client:
        sending = Sending()
        with pytest.raises(NotSent):
            await call(client, sending=sending)
        assert not sending.is_connected
    assert server.rpcs() == ["server/discover"]


@pytest.mark.parametrize("rpc", ["initialize", "notifications/initialized"])
@pytest.mark.parametrize("answer", [b"", b"garbage\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n"])
async def test_a_handshake_that_breaks_is_a_fault_without_the_url_and_its_credentials(rpc: str, answer: bytes) -> None:
    async def cut(asked: Asked) -> None:
        if asked.rpc == rpc:
            await asked.write(answer)
            asked.writer.close()
        else:
            await handshake([ADD], finish)(asked)

    async with (
        raw_server(cut) as server,
        mcp_client(f"{server.url}?key=canary", headers={"x-key": "canary"}) as client,
    ):
        for ask in (client.list_tools, partial(call, client)):
            with pytest.raises(NotSent) as caught:
                await ask()
            assert "canary" not in "".join(traceback.format_exception(caught.value)) + repr(caught.value)
    assert not {"tools/list", "tools/call"} & set(server.rpcs())


@pytest.mark.parametrize("status", [401, 403, 429, 500, 503])
async def test_a_server_that_refuses_the_probe_is_not_asked_for_a_handshake(status: int) -> None:
    async def refuse(asked: Asked) -> None:
        await asked.reply(status)

    async with raw_server(refuse) as server, mcp_client(server.url) as client:
        with pytest.raises(HttpFault, match="No tool was called") as caught:
            await call(client)
        assert caught.value.code == status
    assert server.rpcs() == ["server/discover"]


async def test_a_server_of_unknown_versions_is_a_protocol_fault() -> None:
    async def newer(asked: Asked) -> None:
        if asked.rpc == "initialize":
            await asked.result({"protocolVersion": "2031-01-01", "capabilities": {}})
        else:
            await asked.result({"supportedVersions": ["2031-01-01"]})

    async with raw_server(newer) as server, mcp_client(server.url) as client:
        with pytest.raises(ProtocolFault, match="no known version"):
            await client.list_tools()


async def test_the_trace_of_the_caller_reaches_the_server() -> None:
    async with raw_server(stateless([ADD], finish)) as server, mcp_client(server.url) as client:
        correlation.note(trace=TraceContext("a" * 32, "b" * 16, is_sampled=True, state="vendor=canary"))
        await call(client)
    assert server.asked[-1].headers["traceparent"] == f"00-{'a' * 32}-{'b' * 16}-01"
    assert "tracestate" not in server.asked[-1].headers


async def test_a_session_id_that_no_header_can_have_is_a_fault_before_the_call() -> None:
    async with raw_server(handshake([ADD], finish, session="a b")) as server, mcp_client(server.url) as client:
        with pytest.raises(ProtocolFault, match="session"):
            await call(client)
    assert "tools/call" not in server.rpcs()


async def test_pages_are_joined_and_their_shortest_lifetime_counts() -> None:
    pages = {None: ("x", 9_000), "x": ("y", 5_000), "y": (None, 7_000)}

    async def serve(asked: Asked) -> None:
        cursor = asked.message["params"].get("cursor")
        following, ttl = pages[cursor]
        page = {"tools": [{"name": f"t{cursor}", "inputSchema": {}}], "ttlMs": ttl}
        await asked.result(page | ({"nextCursor": following} if following else {}))

    async with raw_server(serve) as server, mcp_client(server.url, peer=Stateless()) as client:
        found = await client.list_tools()
    assert [tool.name for tool in found.tools] == ["tNone", "tx", "ty"]
    assert found.ttl_ms == 5_000
    assert json.dumps(server.asked[1].message["params"]["cursor"]) == '"x"'
