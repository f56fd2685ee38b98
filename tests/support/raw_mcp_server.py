"""A tool server on a raw socket, whose answers a test writes byte by byte."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

HERE = "127.0.0.1"


@dataclass
class Asked:
    """One HTTP request as it arrived. `message` is its JSON, or an empty object."""

    method: str
    headers: dict[str, str]
    message: Any
    writer: asyncio.StreamWriter
    is_closed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def rpc(self) -> str:
        return str(self.message.get("method", "")) if isinstance(self.message, dict) else ""

    async def write(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()

    async def reply(self, status: int, body: bytes = b"", kind: str = "application/json", **headers: str) -> None:
        """Writes a whole answer."""
        lines = {"Content-Type": kind, "Content-Length": str(len(body))} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        await self.write(head(status, lines) + body)

    async def result(self, result: Any, **headers: str) -> None:
        """Writes the result of the request."""
        message = {"jsonrpc": "2.0", "id": self.message["id"], "result": result}
        await self.reply(200, json.dumps(message).encode(), **headers)

    async def error(self, code: int, message: str = "no", *, status: int = 200) -> None:
        body = {"jsonrpc": "2.0", "id": self.message["id"], "error": {"code": code, "message": message}}
        await self.reply(status, json.dumps(body).encode())


Script = Callable[[Asked], Awaitable[None]]


def head(status: int, headers: dict[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode()


STREAM = head(200, {"Content-Type": "text/event-stream", "Connection": "close"})


def event(message: Any) -> bytes:
    return b"event: message\r\ndata: " + json.dumps(message).encode() + b"\r\n\r\n"


@dataclass
class RawServer:
    """The server's URL, and the requests that it got."""

    url: str = ""
    asked: list[Asked] = field(default_factory=list)

    def named(self, rpc: str) -> list[Asked]:
        """The requests with this JSON-RPC method."""
        return [each for each in self.asked if each.rpc == rpc]

    def rpcs(self) -> list[str]:
        return [each.rpc or each.method for each in self.asked]


def stateless(tools: Sequence[Any], call: Script) -> Script:
    """A server of the stateless era with these tools; `call` answers calls."""

    async def serve(asked: Asked) -> None:
        if asked.rpc == "server/discover":
            await asked.result({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}})
        elif asked.rpc == "tools/list":
            await asked.result({"tools": list(tools), "ttlMs": 60_000})
        else:
            await call(asked)

    return serve


def handshake(tools: Sequence[Any], call: Script, *, session: str = "s-1") -> Script:
    """A server of the handshake era. It gives the session id, if it has one."""

    async def serve(asked: Asked) -> None:
        if asked.rpc == "server/discover":
            await asked.error(-32_601, status=404)
        elif asked.rpc == "initialize":
            headers = {"Mcp_Session_Id": session} if session else {}
            await asked.result({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}, **headers)
        elif asked.rpc == "tools/list":
            await asked.result({"tools": list(tools)})
        elif asked.rpc == "tools/call":
            await call(asked)
        else:
            await asked.reply(202)

    return serve


@asynccontextmanager
async def raw_server(script: Script) -> AsyncIterator[RawServer]:
    """Serves `script`, which is called with each request of each connection."""
    served = RawServer()
    running: set[asyncio.Task[Any]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        running.add(task)
        with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            while True:
                asked = await _read(reader, writer)
                served.asked.append(asked)
                watch = asyncio.ensure_future(_note_close(reader, asked))
                try:
                    await script(asked)
                finally:
                    watch.cancel()
                    with suppress(asyncio.CancelledError):
                        await watch
                if writer.is_closing():
                    break
        writer.close()
        running.discard(task)

    server = await asyncio.start_server(connected, HERE, 0)
    served.url = f"http://{HERE}:{server.sockets[0].getsockname()[1]}/mcp"
    try:
        yield served
    finally:
        server.close()
        for task in tuple(running):
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def _read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Asked:
    lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:]) if name}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Asked(lines[0].split(" ")[0], headers, json.loads(body) if body else {}, writer)


async def _note_close(reader: asyncio.StreamReader, asked: Asked) -> None:
    """Notes that the client closed the connection while its request was answered."""
    while not reader.at_eof() and reader.exception() is None:
        await asyncio.sleep(0.01)
    asked.is_closed.set()
