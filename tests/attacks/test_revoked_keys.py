"""Attack 5: a revoked key stayed valid on an open WebSocket for up to an hour."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import WSCloseCode, WSMsgType

from antiphon_core import events
from antiphon_core.clock import ManualClock
from antiphon_core.rpc import watched
from antiphon_edge.websocket import connection
from tests.support.api_keys import KeyFiles, bearer, id_of
from tests.support.edge import RunningEdge, running_edge
from tests.support.waiting import WAIT_MAX_S

CREATE = {"type": "response.create", "model": "m", "input": "hi", "store": False}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KeyFiles:
    monkeypatch.setattr(watched, "LOOK_INTERVAL_S", 0.0)
    return KeyFiles(tmp_path)


@asynccontextmanager
async def connected(edge: RunningEdge, secret: str) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    url = edge.http.url + "/v1/responses"
    async with edge.http.session.ws_connect(url, headers=bearer(secret)) as socket:
        yield socket


async def turn(socket: aiohttp.ClientWebSocketResponse) -> Any:
    """Runs one more turn and returns its last event."""
    await socket.send_json(CREATE)
    while (event := await socket.receive_json(timeout=WAIT_MAX_S))["type"] not in (*events.TERMINAL, "error"):
        pass
    return event


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections are not checked between two responses, so that the next response is what finds the key revoked."""
    monkeypatch.setattr(connection, "CHECK_INTERVAL_S", 3_600.0)


def revoke(files: KeyFiles, secret: str) -> None:
    lines = files.keys.read_text().splitlines(keepends=True)
    files.keys.write_text("".join(line for line in lines if not line.startswith(id_of(secret))))


@pytest.mark.usefixtures("unchecked")
async def test_a_revoked_key_is_rejected_on_an_open_websocket(files: KeyFiles) -> None:
    thief, owner = files.make("acme"), files.make("globex")
    async with running_edge(**files.settings) as edge, connected(edge, thief) as stolen, connected(edge, owner) as own:
        assert (await turn(stolen))["type"] == events.COMPLETED
        revoke(files, thief)
        refused = await turn(stolen)
        assert (refused["status"], refused["error"]["code"]) == (401, "invalid_api_key")
        closed = await stolen.receive(timeout=WAIT_MAX_S)
        assert (closed.type, stolen.close_code) == (WSMsgType.CLOSE, WSCloseCode.POLICY_VIOLATION)
        assert (await turn(own))["type"] == events.COMPLETED
        assert len(edge.translator.turns) == 2


@pytest.mark.usefixtures("unchecked")
async def test_an_expired_key_is_rejected_on_an_open_websocket(files: KeyFiles) -> None:
    clock = ManualClock()
    secret = files.make("acme", expires_at_ms=clock.now_ms() + 1_000)
    async with running_edge(clock=clock, **files.settings) as edge, connected(edge, secret) as socket:
        assert (await turn(socket))["type"] == events.COMPLETED
        clock.advance(2.0)
        assert (await turn(socket))["status"] == 401


async def test_an_idle_websocket_is_closed_when_its_key_is_revoked(files: KeyFiles) -> None:
    thief, owner = files.make("acme"), files.make("globex")
    async with running_edge(**files.settings) as edge, connected(edge, thief) as stolen, connected(edge, owner) as own:
        revoke(files, thief)
        closed = await stolen.receive(timeout=WAIT_MAX_S)
        assert (closed.type, stolen.close_code) == (WSMsgType.CLOSE, WSCloseCode.POLICY_VIOLATION)
        assert (await turn(own))["type"] == events.COMPLETED


async def test_the_stream_of_a_stored_response_is_cut_off_when_its_key_is_revoked(files: KeyFiles) -> None:
    """Also while it is silent. The stream of another key of the tenant goes on."""
    thief, owner = files.make("acme"), files.make("acme")
    async with running_edge(**files.settings) as edge:
        body = {"model": "m", "input": "hi", "background": True}
        made = (await edge.ask("POST", "/v1/responses", body, headers=bearer(owner))).json["id"]
        url = f"{edge.http.url}/v1/responses/{made}?stream=true"
        session = edge.http.session
        async with session.get(url, headers=bearer(thief)) as stolen, session.get(url, headers=bearer(owner)) as own:
            assert (stolen.status, own.status) == (200, 200)
            revoke(files, thief)
            with pytest.raises(aiohttp.ClientPayloadError):
                async with asyncio.timeout(WAIT_MAX_S):
                    await stolen.read()
            await edge.ask("POST", f"/v1/responses/{made}/cancel", headers=bearer(owner))
            async with asyncio.timeout(WAIT_MAX_S):
                assert b"[DONE]" in await own.read()
