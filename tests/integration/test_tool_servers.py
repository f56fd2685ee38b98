"""Turns that call tools of a real MCP server, through every part but the model: the edge over HTTP, the worker, the
tool service in this process and over gRPC, the operator's file of servers and servers of the request."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from antiphon_core.fold import fold
from antiphon_core.jsons import Object, dumps
from antiphon_core.ports.tools import Tools
from antiphon_core.telemetry.exposition import Exposition
from antiphon_store.rows.model import Kind
from tests.support.in_process import System, running
from tests.support.mcp_servers import RealServer, python_server
from tests.support.served_models import model
from tests.support.server_tools import server
from tests.support.stores import ReachableRows
from tests.support.tool_services import REACHES, tool_service
from tests.support.tool_turns import RoundsEngine, call

OPERATORS_SECRET, CLIENTS_SECRET, CLIENTS_HEADER = "canary-operator", "canary-client", "canary-header"
CALLS = [*call("calc__add", '{"a":2,"b":3}'), *call("calc__bump")]
LISTED = ["output_item.added", "mcp_list_tools.in_progress", "mcp_list_tools.completed", "output_item.done"]
CALLED = ["output_item.added", "mcp_call.in_progress", "mcp_call_arguments.delta", "mcp_call_arguments.done"]
ENDED = ["mcp_call.completed", "output_item.done"]


@dataclass(frozen=True)
class World:
    system: System
    engine: RoundsEngine
    mcp: RealServer
    rows: ReachableRows

    def declared(self, by: str) -> Object:
        """The server as a request names it."""
        if by == "label":
            return server("calc")
        secrets = {"authorization": CLIENTS_SECRET, "headers": {"x-key": CLIENTS_HEADER}}
        return server("calc", server_url=self.mcp.url, **secrets)


@pytest.fixture(params=REACHES)
async def tools(request: pytest.FixtureRequest, tmp_path: Path, mcp: RealServer) -> AsyncIterator[Tools]:
    (tmp_path / "token").write_text(OPERATORS_SECRET)
    (tmp_path / "token").chmod(0o600)
    url = mcp.url.replace("127.0.0.1", "localhost")  # requests cannot name the operator's own URL
    (tmp_path / "mcp.toml").write_text(f'[servers.calc]\nurl = "{url}"\nsecret_file = "token"\napproval = "client"\n')
    async with tool_service(
        REACHES[request.param],
        servers=tmp_path / "mcp.toml",
        client_hosts=("127.0.0.1",),
        client_http=True,
        client_private_addresses=True,
    ) as tools:
        yield tools


@pytest.fixture
async def mcp(tmp_path: Path) -> AsyncIterator[RealServer]:
    async with python_server("2.3 with events", tmp_path) as running_server:
        yield running_server


@pytest.fixture
async def world(tools: Tools, mcp: RealServer) -> AsyncIterator[World]:
    rows, engine = ReachableRows(), RoundsEngine(CALLS, "Five.")
    async with running((model(), engine), rows=rows, tools=tools, workers=1) as system:
        yield World(system, engine, mcp, rows)


def outputs(response: Object) -> list[str]:
    return [item["output"] for item in response["output"] if item["type"] == "mcp_call"]


@pytest.mark.parametrize("by", ["label", "url"])
async def test_turn_with_a_real_server_is_streamed_stored_and_continued(
    world: World, by: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    http, declared = world.system.http, world.declared(by)
    body: Object = {"model": "m", "input": "2 + 3?", "tools": [declared]}
    streamed = await http.create(**body, stream=True)
    log = streamed.events
    types = [event["type"].removeprefix("response.") for event in log]
    assert types[:6] == ["created", "in_progress", *LISTED]
    assert types[6:18] == [*CALLED, *CALLED, *ENDED, *ENDED]
    assert types[-1] == "completed"
    response = log[-1]["response"]
    assert [item["type"] for item in response["output"]] == ["mcp_list_tools", "mcp_call", "mcp_call", "message"]
    assert outputs(response) == ["5", "bumped"]
    assert fold(log) == response

    stored = await http.get(f"/v1/responses/{response['id']}")
    assert stored.json == response
    ids = [item["id"] for item in response["output"]]
    assert world.mcp.calls() == [f"{response['id']}/{ids[2]}"]

    again = await world.system.create(input="Sure?", previous_response_id=response["id"], tools=[declared])
    assert [item["type"] for item in again["output"]] == ["message"]
    shown = world.engine.requests[-1].prompt.messages  # type: ignore[union-attr]
    assert [each["role"] for each in shown] == ["user", "assistant", "tool", "tool", "assistant", "user"]
    assert_no_secret(world, streamed.body + stored.body + dumps(again) + repr(shown).encode(), caplog)


async def test_background_turn_with_a_real_server(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    http = world.system.http
    queued = await world.system.create(tools=[world.declared("label")], background=True)
    followed = await http.get(f"/v1/responses/{queued['id']}?stream=true")
    ended = await http.get(f"/v1/responses/{queued['id']}")
    assert (ended.json["status"], outputs(ended.json)) == ("completed", ["5", "bumped"])
    assert fold(followed.events) == ended.json
    assert len(world.mcp.calls()) == 1
    assert_no_secret(world, followed.body + ended.body, caplog)


def assert_no_secret(world: World, told: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """No secret is in what was told, stored, logged or measured."""
    metrics, _ = Exposition(("edge", "worker", "tools")).text()
    assert b"antiphon_tool_calls" in metrics
    rows = [row for kind in Kind for row in world.rows.stored(kind).values()]
    logged = [record.getMessage() + repr(record.__dict__) for record in caplog.records]
    assert logged
    for seen in (told.decode(), metrics.decode(), repr(rows), *logged):
        assert "canary" not in seen
