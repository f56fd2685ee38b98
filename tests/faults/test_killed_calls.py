"""`kill -9` of the process that runs turns while their calls of tools run: between their intent and their result.

The tool server is a real one, in a process of its own, and counts effects in a file that it syncs.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE
from typing import Any

import aiohttp
import pytest

from antiphon_core.jsons import Object, dumps, loads
from tests.support.children import start_child
from tests.support.http import Answer, Http
from tests.support.mcp_servers import RealServer, holding_server
from tests.support.server_tools import server
from tests.support.waiting import until

DECLARED: Object = {"model": "m", "tools": [server()]}
UNKNOWN, DONE = ("incomplete", None, -32001), ("completed", "Done.", None)


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[RealServer]:
    async with holding_server(tmp_path) as running:
        members = "approval = 'never'\ntrust_annotations = true"
        (tmp_path / "mcp.toml").write_text(f'[servers.shop]\nurl = "{running.url}"\n{members}\n')
        yield running


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@contextmanager
def system(folder: Path, session: aiohttp.ClientSession) -> Iterator[Http]:
    """Runs edge, worker and tool service in a process, which is killed at the end of the block."""
    program = [sys.executable, "-m", "tests.support.tool_system", str(folder / "store.db"), str(folder / "mcp.toml")]
    process = start_child(program, stdout=PIPE, text=True)
    try:
        assert process.stdout is not None
        yield Http(session, process.stdout.readline().strip())
    finally:
        process.kill()
        process.communicate()


async def ask(http: Http, who: str, tool: str, **members: Any) -> Answer:
    headers = {"idempotency-key": who} if who.startswith("keyed") else {}
    return await http.ask("POST", "/v1/responses", DECLARED | {"input": f"{tool} {who}"} | members, headers=headers)


def told(response: Object) -> tuple[str, str | None, int | None]:
    """How the only call of a response ended: its status, output and error code."""
    (item,) = [each for each in response["output"] if each["type"] == "mcp_call"]
    return item["status"], item["output"], (item["error"] or {}).get("code")


async def test_calls_of_a_killed_process_run_at_most_once_unless_they_are_repeatable(
    tmp_path: Path, shop: RealServer, session: aiohttp.ClientSession
) -> None:
    with system(tmp_path, session) as http:
        queued = {tool: (await ask(http, "queued", tool, background=True)).json["id"] for tool in ("buy", "look")}
        streams = [await _begun(http, who) for who in ("read", "continued")]
        keyed = [asyncio.ensure_future(ask(http, f"keyed-{tool}", tool)) for tool in ("buy", "look")]
        await until(lambda: len(shop.calls()) == 6, "all calls run")
    await asyncio.gather(*keyed, return_exceptions=True)
    assert shop.release is not None
    shop.release.touch()

    with system(tmp_path, session) as http:
        repeated = {tool: (await ask(http, f"keyed-{tool}", tool)).json for tool in ("buy", "look")}
        background = {tool: await http.ended(response_id) for tool, response_id in queued.items()}
        for ended in (repeated, background):
            assert {tool: told(each) for tool, each in ended.items()} == {"buy": UNKNOWN, "look": DONE}
            assert {each["status"] for each in ended.values()} == {"completed"}
        (read_id, _), (continued_id, _) = streams
        assert told(await http.ended(read_id)) == UNKNOWN
        further = await http.create(**DECLARED, input="And?", previous_response_id=continued_id)
        assert further.json["status"] == "completed"
        lost = await http.get(f"/v1/responses/{continued_id}")
        assert (lost.json["status"], told(lost.json)) == ("failed", UNKNOWN)
    assert Counter(shop.calls()) == Counter(
        {
            "buy queued": 1,
            "buy keyed-buy": 1,
            "buy read": 1,
            "buy continued": 1,
            "look queued": 2,
            "look keyed-look": 2,
        }
    )


async def _begun(http: Http, who: str) -> tuple[str, aiohttp.ClientResponse]:
    """Begins a turn without a key. Returns the id of its response, and its stream: a client that closes it leaves."""
    body = DECLARED | {"input": f"buy {who}", "stream": True}
    stream = await http.session.post(http.url + "/v1/responses", data=dumps(body))
    async for line in stream.content:
        if line.startswith(b"data: "):
            return loads(line.removeprefix(b"data: "))["response"]["id"], stream
    raise AssertionError("the stream has no event")


async def test_approved_call_of_a_killed_process_is_not_run_by_a_second_answer(
    tmp_path: Path, shop: RealServer, session: aiohttp.ClientSession
) -> None:
    asking = {"tools": [server(require_approval="always")]}
    with system(tmp_path, session) as http:
        asked = (await ask(http, "approved", "buy", **asking)).json
        request = asked["output"][-1]
        assert (request["type"], shop.calls()) == ("mcp_approval_request", [])
        answer = {"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": True}
        given = {"previous_response_id": asked["id"], "input": [answer], **asking}
        answering = asyncio.ensure_future(ask(http, "", "", **given))
        await until(lambda: len(shop.calls()) == 1, "the call runs")
    await asyncio.gather(answering, return_exceptions=True)
    assert shop.release is not None
    shop.release.touch()
    with system(tmp_path, session) as http:
        second = await ask(http, "", "", **given)
        assert (second.status, second.json["error"]["code"]) == (409, "approval_already_used")
        used_by = second.json["error"]["message"].split("'")[3]
        response = await http.ended(used_by)
        assert (response["status"], told(response)) == ("failed", UNKNOWN)
    assert len(shop.calls()) == 1
