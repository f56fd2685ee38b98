"""A gRPC server of streams in this process, and a relay that can cut connections to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import grpc

HOST = "127.0.0.1"
Handler = Callable[[bytes, Any], AsyncIterator[bytes]]


class StreamServer:
    """A server whose methods answer one message with a stream. `seen` records events of calls."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.released = asyncio.Event()
        self.sent = 0

    async def echo(self, message: bytes, _context: Any) -> AsyncIterator[bytes]:
        yield message

    async def count(self, message: bytes, _context: Any) -> AsyncIterator[bytes]:
        for number in range(int(message)):
            yield b"%d" % number

    async def tokens(self, message: bytes, _context: Any) -> AsyncIterator[bytes]:
        """Sends `message` messages, each as large as Triton's message for one token."""
        for _ in range(int(message)):
            yield b"x" * 117

    async def bulk(self, message: bytes, _context: Any) -> AsyncIterator[bytes]:
        """Sends `message` times 10,000 bytes."""
        for _ in range(int(message)):
            self.sent += 1
            yield b"x" * 10_000

    async def hold(self, message: bytes, _context: Any) -> AsyncIterator[bytes]:
        """Sends the message at once, and again when it is released."""
        try:
            yield message
            await self.released.wait()
            yield message
        except (asyncio.CancelledError, GeneratorExit):  # GeneratorExit if the message was just being written
            self.seen.append("cancelled")
            raise

    async def metadata(self, _message: bytes, context: Any) -> AsyncIterator[bytes]:
        for name, value in context.invocation_metadata():
            yield f"{name}={value}".encode()

    async def fail(self, message: bytes, context: Any) -> AsyncIterator[bytes]:
        """Fails after one message with INVALID_ARGUMENT and details."""
        yield message
        context.set_trailing_metadata((("grpc-status-details-bin", b"\x00details\xff"),))
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, message.decode())

    async def fail_at_once(self, message: bytes, context: Any) -> AsyncIterator[bytes]:
        await context.abort(grpc.StatusCode.NOT_FOUND, message.decode())
        yield b""


class _Methods(grpc.GenericRpcHandler):
    def __init__(self, server: StreamServer) -> None:
        self._server = server

    def service(self, details: Any) -> Any:
        handler = getattr(self._server, details.method.rpartition("/")[2], None)
        if handler is None:
            return None

        async def stream(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
            async for message in requests:
                async for answer in handler(message, context):
                    yield answer

        return grpc.stream_stream_rpc_method_handler(stream)


@asynccontextmanager
async def serving(
    server: StreamServer,
    *,
    port: int = 0,
    options: Sequence[tuple[str, Any]] = (),
    credentials: grpc.ServerCredentials | None = None,
) -> AsyncIterator[tuple[grpc.aio.Server, int]]:
    """Runs the server and yields it with its port."""
    running = grpc.aio.server(options=[("grpc.max_receive_message_length", -1), ("grpc.so_reuseport", 0), *options])
    running.add_generic_rpc_handlers((_Methods(server),))
    address = f"{HOST}:{port}"
    bound = running.add_insecure_port(address) if credentials is None else running.add_secure_port(address, credentials)
    await running.start()
    try:
        yield running, bound
    finally:
        server.released.set()
        await running.stop(None)


class Relay:
    """Relays bytes to a port in both directions, and counts connections."""

    def __init__(self, port: int) -> None:
        self._target_port = port
        self._writers: set[asyncio.StreamWriter] = set()
        self.connections = 0
        self.port = 0

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        target_reader, target_writer = await asyncio.open_connection(HOST, self._target_port)
        self._writers |= {writer, target_writer}
        await asyncio.gather(self._pass_on(reader, target_writer), self._pass_on(target_reader, writer))

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(2**16):
                writer.write(data)
                await writer.drain()
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
        self._writers.discard(writer)

    def cut(self) -> None:
        """Resets all connections, as if the process behind the relay had died."""
        for writer in self._writers:
            writer.transport.abort()


@asynccontextmanager
async def relaying(port: int) -> AsyncIterator[Relay]:
    relay = Relay(port)
    listening = await asyncio.start_server(relay.connected, HOST, 0)
    relay.port = listening.sockets[0].getsockname()[1]
    try:
        yield relay
    finally:
        listening.close()
        relay.cut()
        await listening.wait_closed()
