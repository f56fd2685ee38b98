"""Approvals of calls of a real MCP server: through OpenAI's SDK, over HTTP, and across a restart of everything."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI, ConflictError

from antiphon_core import audit
from antiphon_core.jsons import Object, loads
from tests.support.in_process import System, running
from tests.support.mcp_servers import RealServer, python_server
from tests.support.served_models import model
from tests.support.server_tools import server
from tests.support.tool_services import REACHES, tool_service
from tests.support.tool_turns import RoundsEngine, call

BUMP = call("calc__bump")
DECLARED: Any = server("calc", require_approval="always")


@pytest.fixture
async def mcp(tmp_path: Path) -> AsyncIterator[RealServer]:
    async with python_server("2.3 with events", tmp_path) as running_server:
        (tmp_path / "mcp.toml").write_text(f'[servers.calc]\nurl = "{running_server.url}"\n')
        yield running_server


@asynccontextmanager
async def everything(folder: Path, *rounds: Any) -> AsyncIterator[tuple[System, list[AsyncOpenAI]]]:
    """Runs two edges, a worker, a tool service and a translator over a SQLite file, with a client of each edge."""
    async with (
        tool_service(REACHES["local"], servers=folder / "mcp.toml") as tools,
        running(
            (model(), RoundsEngine(*rounds)), rows=f"sqlite:///{folder / 'store.db'}", tools=tools, edges=2, workers=1
        ) as system,
    ):
        clients = [AsyncOpenAI(base_url=f"{each.url}/v1", api_key="none", max_retries=0) for each in system.servers]
        try:
            yield system, clients
        finally:
            for each in clients:
                await each.close()


def answer(approval_id: str, *, approve: bool = True) -> Any:
    return [{"type": "mcp_approval_response", "approval_request_id": approval_id, "approve": approve}]


def audit_lines(path: Path) -> Sequence[Object]:
    return [line for line in map(loads, path.read_text().splitlines()) if line["action"] in ("approve", "deny")]


async def test_answer_to_a_restarted_system_is_used_once_by_one_of_two_edges(tmp_path: Path, mcp: RealServer) -> None:
    async with everything(tmp_path, BUMP) as (_, (client, _)):
        asked = await client.responses.create(model="m", input="Bump.", tools=[DECLARED])
        request = asked.output[-1]
        assert request.type == "mcp_approval_request"
        assert (request.name, mcp.calls()) == ("bump", [])

    async with everything(tmp_path, "Bumped.") as (system, clients):
        (waiting,) = (await system.http.get("/v1/approvals")).json["data"]
        assert (waiting["id"], waiting["response_id"], waiting["name"]) == (request.id, asked.id, "bump")
        given: Any = {"model": "m", "previous_response_id": asked.id, "tools": [DECLARED], "input": answer(request.id)}
        ends = await asyncio.gather(*(client.responses.create(**given) for client in clients), return_exceptions=True)
        (used,) = [each for each in ends if not isinstance(each, BaseException)]
        (refused,) = [each for each in ends if isinstance(each, ConflictError)]
        called = next(item for item in used.output if item.type == "mcp_call")
        assert (called.approval_request_id, called.output, used.output_text) == (request.id, "bumped", "Bumped.")
        assert mcp.calls() == [f"{used.id}/{called.id}"]
        assert (refused.code, used.id in refused.message) == ("approval_already_used", True)
        assert (await system.http.get("/v1/approvals")).json["data"] == []


@pytest.mark.parametrize("background", [False, True])
async def test_denial_and_approval_are_audited_and_told_to_the_model(
    tmp_path: Path, mcp: RealServer, background: bool
) -> None:
    audit.configure(tmp_path / "audit")
    try:
        async with everything(tmp_path, BUMP, BUMP, "So.") as (system, _):
            asked = await finished(system, tools=[DECLARED], background=background)
            denied = await finished(
                system, asked, answer(asked["output"][-1]["id"], approve=False), background=background
            )
            second = denied["output"][-1]
            assert (second["type"], mcp.calls()) == ("mcp_approval_request", [])
            ended = await finished(system, denied, answer(second["id"]), background=background)
            assert [item["type"] for item in ended["output"]] == ["mcp_call", "message"]
            assert len(mcp.calls()) == 1
        lines = audit_lines(tmp_path / "audit")
        assert [(line["action"], line["ids"]) for line in lines] == [
            ("deny", [asked["output"][-1]["id"], denied["id"]]),
            ("approve", [second["id"], ended["id"]]),
        ]
        assert all(line["caller"] and line["request_id"] for line in lines)
    finally:
        audit.configure(None)


async def finished(system: System, parent: Object | None = None, given: Any = "Bump.", **members: Any) -> Any:
    """Creates a response, and returns it when it has ended."""
    behind = {"previous_response_id": parent["id"]} if parent is not None else {}
    made = await system.create(**{"tools": [DECLARED], "input": given, **behind, **members})
    if members.get("background"):
        await system.http.get(f"/v1/responses/{made['id']}?stream=true")
        return (await system.http.get(f"/v1/responses/{made['id']}")).json
    return made
