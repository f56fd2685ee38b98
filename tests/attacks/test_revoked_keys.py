"""Attack 5: a revoked key stayed valid on an open WebSocket for up to an hour."""

from __future__ import annotations

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


async def test_a_revoked_key_is_rejected_on_an_open_websocket(files: KeyFiles) -> None:
    thief, owner = files.make("acme"), files.make("globex")
    async with running_edge(**files.settings) as edge, connected(edge, thief) as stolen, connected(edge, owner) as own:
        assert (await turn(stolen))["type"] == events.COMPLETED
        lines = files.keys.read_text().splitlines(keepends=True)
        files.keys.write_text("".join(line for line in lines if not line.startswith(id_of(thief))))
        refused = await turn(stolen)
        assert (refused["status"], refused["error"]["code"]) == (401, "invalid_api_key")
        closed = await stolen.receive(timeout=WAIT_MAX_S)
        assert (closed.type, stolen.close_code) == (WSMsgType.CLOSE, WSCloseCode.POLICY_VIOLATION)
        assert (await turn(own))["type"] == events.COMPLETED
        assert len(edge.translator.turns) == 2


async def test_an_expired_key_is_rejected_on_an_open_websocket(files: KeyFiles) -> None:
    clock = ManualClock()
    secret = files.make("acme", expires_at_ms=clock.now_ms() + 1_000)
    async with running_edge(clock=clock, **files.settings) as edge, connected(edge, secret) as socket:
        assert (await turn(socket))["type"] == events.COMPLETED
        clock.advance(2.0)
        assert (await turn(socket))["status"] == 401
