"""The client's end of a WebSocket to an edge, and responses that wait until a test releases them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
from aiohttp import WSMsgType
from openresponses_types.types import WebSocketErrorEvent

from antiphon_core import events
from antiphon_core.jsons import Object
from antiphon_edge.websocket.lanes import Lanes
from tests.support.edge import RunningEdge


@dataclass
class Client:
    """The client's end of a connection."""

    socket: aiohttp.ClientWebSocketResponse

    @property
    def transport(self) -> asyncio.Transport:
        connection = self.socket._conn
        assert connection is not None
        assert isinstance(connection.transport, asyncio.Transport)
        return connection.transport

    async def send(self, **members: Any) -> None:
        await self.socket.send_json({"type": "response.create", "model": "m", "input": "hi", "store": False} | members)

    async def event(self) -> Object:
        event: Object = await self.socket.receive_json(timeout=10)
        return event

    async def until(self, *types: str) -> list[Object]:
        """Returns the events up to one of these types."""
        told = [await self.event()]
        while told[-1]["type"] not in types:
            told.append(await self.event())
        return told

    async def ask(self, **members: Any) -> Object:
        """Sends a create and returns its response."""
        await self.send(**members)
        response: Object = (await self.until(*events.TERMINAL))[-1]["response"]
        return response

    async def refusal(self, **members: Any) -> Object:
        await self.send(**members)
        return await self.error()

    async def error(self) -> Object:
        event = await self.event()
        WebSocketErrorEvent.model_validate(event)
        error: Object = event["error"] | {"status": event["status"]}
        return error

    async def close_code(self) -> int | None:
        message = await self.socket.receive(timeout=10)
        assert message.type is WSMsgType.CLOSE
        return self.socket.close_code


@asynccontextmanager
async def connected(edge: RunningEdge, **options: Any) -> AsyncIterator[Client]:
    async with edge.http.session.ws_connect(edge.http.url + "/v1/responses", **options) as socket:
        yield Client(socket)


async def until_lanes(edge: RunningEdge, condition: Callable[[Lanes], bool]) -> None:
    """Waits until the lanes of an open connection meet a condition."""
    async with asyncio.timeout(30):
        while not any(condition(connection._lanes) for connection in edge.server._sockets._open):
            await asyncio.sleep(0.005)


def held_responses(edge: RunningEdge) -> asyncio.Event:
    """Lets responses wait for an event after their first two events."""
    release = asyncio.Event()
    play = edge.translator._play

    async def held(*arguments: Any) -> AsyncIterator[Any]:
        async for batch in play(*arguments):
            yield batch
            if batch.first_sequence == 1:
                await release.wait()

    edge.translator._play = held  # type: ignore[method-assign,assignment]
    return release
