"""The lean gRPC server against gRPC's own clients and the lean one, over TCP, on both event loops."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import grpc
import pytest
from hyperframe.frame import Frame

from antiphon_http2.client.client import GrpcStreams
from antiphon_http2.errors import GrpcError
from antiphon_http2.limits import UNSENT_ANSWERS_BYTES_MAX
from antiphon_http2.server.answers import Status
from antiphon_http2.server.call import ServerCall
from antiphon_http2.server.options import ServerOptions
from antiphon_http2.server.server import GrpcServer
from antiphon_http2.statuses import INVALID_ARGUMENT
from tests.support.certificates import Certificate, authority, signed_by
from tests.support.http2_peer import Http2Peer
from tests.support.waiting import WAIT_MAX_S, until

HOST = "127.0.0.1"
LARGE = 20 * 2**20
OPTIONS = ServerOptions(message_bytes_max=LARGE)
UNLIMITED = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))
METADATA = (("a", "text"), ("a", "again"), ("b-bin", b"\x00\xff,"), ("empty", ""), ("user-agent", "me"))


class Methods:
    """The methods of the server under test, and what they saw."""

    def __init__(self) -> None:
        self.calls: list[ServerCall] = []
        self.cancelled: list[str] = []
        self.sent = 0

    def route(self, path: str) -> Callable[[ServerCall], Any] | None:
        name = path.removeprefix("/test.Server/")
        method = getattr(self, name, None) if name != path else None
        return None if method is None else lambda call: self._watched(call, method)

    async def _watched(self, call: ServerCall, method: Callable[[ServerCall], Any]) -> None:
        self.calls.append(call)
        call.authenticate()
        try:
            await method(call)
        except asyncio.CancelledError:
            self.cancelled.append(call.path)
            raise

    async def echo(self, call: ServerCall) -> None:
        while await call.next_size() is not None:
            call.send(await call.receive())
            await call.room()

    async def count(self, call: ServerCall) -> None:
        await call.next_size()
        for number in range(int(await call.receive())):
            call.send(b"%d" % number)

    async def fail(self, call: ServerCall) -> None:
        call.finish(
            Status(INVALID_ARGUMENT, "käse: 100 %\n", b"\x08\x03\x12\x01x", [("t", "1"), ("u-bin", b"\xff\x00")])
        )

    async def fail_behind(self, call: ServerCall) -> None:
        call.send(b"first")
        await self.fail(call)

    async def bug(self, _call: ServerCall) -> None:
        raise ZeroDivisionError("secret")

    async def bug_before_write(self, call: ServerCall) -> None:
        call.before_write(lambda: 1 / 0)  # type: ignore[arg-type]
        await self.wait(call)

    async def wait(self, call: ServerCall) -> None:
        call.send(b"begun")
        await asyncio.Event().wait()

    async def clean_up(self, call: ServerCall) -> None:
        call.send(b"begun")
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            self.sent += 1

    async def pour(self, call: ServerCall) -> None:
        while True:
            call.send(bytes(8_000))
            self.sent += 8_000
            if call.is_full:
                await call.room()


@asynccontextmanager
async def serving(
    *, options: ServerOptions = OPTIONS, read_tls: Callable[[], ssl.SSLContext] | None = None
) -> AsyncIterator[tuple[Methods, GrpcServer, int]]:
    methods = Methods()
    server = GrpcServer(methods.route, options=options, read_tls=read_tls)
    port = await server.listen(HOST, 0)
    try:
        yield methods, server, port
    finally:
        await server.drain(0)


@pytest.fixture
async def served() -> AsyncIterator[tuple[Methods, grpc.aio.Channel]]:
    async with serving() as (methods, _server, port), channel_to(port) as channel:
        yield methods, channel


Served = tuple[Methods, grpc.aio.Channel]


def channel_to(port: int, **options: Any) -> grpc.aio.Channel:
    return grpc.aio.insecure_channel(f"{HOST}:{port}", options=[*UNLIMITED, *options.items()])


def unary(channel: grpc.aio.Channel, name: str, data: bytes = b"", **options: Any) -> Any:
    method: Any = channel.unary_unary(f"/test.Server/{name}")
    return method(data, timeout=options.pop("timeout", WAIT_MAX_S), **options)


def streamed(channel: grpc.aio.Channel, name: str, data: bytes = b"", **options: Any) -> Any:
    method: Any = channel.unary_stream(f"/test.Server/{name}")
    return method(data, timeout=options.pop("timeout", WAIT_MAX_S), **options)


async def failure(call: Any) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await (call if hasattr(call, "__await__") else call.read())
    return caught.value


# ---- calls ----


@pytest.mark.parametrize("size", [0, 1, 65_530, 65_531, LARGE])
async def test_message_of_any_size_goes_both_ways(served: Served, size: int) -> None:
    assert await unary(served[1], "echo", b"x" * size) == b"x" * size


async def test_metadata_and_deadline_reach_the_handler(served: Served) -> None:
    methods, channel = served
    await unary(channel, "echo", metadata=METADATA[:-1])
    (call,) = methods.calls
    assert [each for each in call.metadata if each[0] != "user-agent"] == list(METADATA[:-1])
    remaining_s = call.time_remaining_s()
    assert remaining_s is not None
    assert 0 < remaining_s <= WAIT_MAX_S + 1  # gRPC rounds what it sends
    assert call.peer.startswith(f"ipv4:{HOST}:")


async def test_stream_delivers_its_answers_in_order(served: Served) -> None:
    assert [answer async for answer in streamed(served[1], "count", b"5000")] == [b"%d" % n for n in range(5000)]


async def test_requests_of_a_bidirectional_stream_are_answered_one_by_one(served: Served) -> None:
    method: Any = served[1].stream_stream("/test.Server/echo")
    call = method(timeout=WAIT_MAX_S)
    for number in range(100):
        await call.write(b"%d" % number * 1_000)
        assert await call.read() == b"%d" % number * 1_000
    await call.done_writing()
    assert await call.read() is grpc.aio.EOF


@pytest.mark.parametrize("name", ["fail", "fail_behind"])
async def test_status_details_and_trailers_reach_the_client(served: Served, name: str) -> None:
    call = streamed(served[1], name)
    if name == "fail_behind":
        assert await call.read() == b"first"
    error = await failure(call)
    assert (error.code(), error.details()) == (grpc.StatusCode.INVALID_ARGUMENT, "käse: 100 %\n")
    trailers = dict(error.trailing_metadata() or ())
    assert trailers == {"t": "1", "u-bin": b"\xff\x00", "grpc-status-details-bin": b"\x08\x03\x12\x01x"}


async def test_bug_of_a_handler_is_unknown_and_logged(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    error = await failure(unary(served[1], "bug"))
    assert (error.code(), error.details()) == (grpc.StatusCode.UNKNOWN, "The handler failed.")
    assert "secret" in caplog.text


async def test_bug_of_a_callback_ends_its_call_and_no_other_one(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    other = streamed(served[1], "count", b"1")
    error = await failure(streamed(served[1], "bug_before_write"))
    assert (error.code(), error.details()) == (grpc.StatusCode.UNKNOWN, "The handler failed.")
    assert "ZeroDivisionError" in caplog.text
    assert [answer async for answer in other] == [b"0"]


async def test_method_without_handler_is_unimplemented(served: Served) -> None:
    error = await failure(unary(served[1], "nothing"))
    assert (error.code(), "/test.Server/nothing" in (error.details() or "")) == (grpc.StatusCode.UNIMPLEMENTED, True)


async def test_compressed_message_is_unimplemented(served: Served) -> None:
    error = await failure(unary(served[1], "echo", b"x" * 1_000, compression=grpc.Compression.Gzip))
    assert error.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_too_large_message_is_rejected_and_the_connection_lives(served: Served) -> None:
    error = await failure(unary(served[1], "echo", b"x" * (LARGE + 1)))
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert await unary(served[1], "echo", b"x") == b"x"


async def test_cancelled_call_cancels_its_handler(served: Served) -> None:
    methods, channel = served
    call = streamed(channel, "wait")
    assert await call.read() == b"begun"
    call.cancel()
    await until(lambda: methods.cancelled == ["/test.Server/wait"], "the handler's end")


async def test_timeout_ends_call_and_handler(served: Served) -> None:
    methods, channel = served
    error = await failure(unary(channel, "wait", timeout=0.3))
    assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    await until(lambda: bool(methods.cancelled), "the handler's end")


async def test_handler_waits_for_a_client_that_does_not_read(served: Served) -> None:
    methods, channel = served
    call = streamed(channel, "pour")
    await call.read()
    before = -1
    while methods.sent != before:  # until the windows are full
        before = methods.sent
        await asyncio.sleep(0.2)
    assert methods.calls[0]._connection.unsent_bytes(methods.calls[0]._stream) <= 2 * UNSENT_ANSWERS_BYTES_MAX
    for _ in range(before // 8_000):
        await call.read()
    await until(lambda: methods.sent > before, "further answers")
    call.cancel()


async def test_many_calls_at_once_are_answered(served: Served) -> None:
    calls = [unary(served[1], "echo", b"%d" % number) for number in range(500)]
    assert await asyncio.gather(*calls) == [b"%d" % number for number in range(500)]


async def test_synchronous_client_is_served() -> None:
    def ask(port: int) -> list[bytes]:
        with grpc.insecure_channel(f"{HOST}:{port}") as channel:
            echo: Any = channel.stream_stream("/test.Server/echo")
            return list(echo(iter([b"a", b"b"]), timeout=WAIT_MAX_S))

    async with serving() as (_methods, _server, port):
        assert await asyncio.to_thread(ask, port) == [b"a", b"b"]


async def test_lean_client_is_served() -> None:
    received: list[bytes] = []
    async with serving() as (methods, _server, port):
        streams = GrpcStreams(f"{HOST}:{port}")
        call = await streams.start("/test.Server/count", b"1000", received.extend, metadata=[("a", "b")])
        await call.wait_end()
        with pytest.raises(GrpcError) as caught:
            await (await streams.start("/test.Server/fail", b"", received.extend)).wait_end()
        assert (caught.value.status, caught.value.details) == (INVALID_ARGUMENT, b"\x08\x03\x12\x01x")
        waiting = await streams.start("/test.Server/wait", b"", received.extend)
        await until(lambda: received[-1] == b"begun", "the call")
        waiting.cancel()
        await until(lambda: bool(methods.cancelled), "the handler's end")
        await streams.close()
    assert received[:-1] == [b"%d" % number for number in range(1000)]


@pytest.mark.parametrize("name", ["echo", "fail", "fail_behind", "nothing"])
async def test_ended_call_is_freed_without_the_garbage_collector(served: Served, name: str) -> None:
    methods, channel = served
    gc.collect()
    gc.disable()
    try:
        with suppress(grpc.aio.AioRpcError):
            await unary(channel, name, b"x")
        methods.calls.clear()
        await until(lambda: not any(isinstance(each, ServerCall) for each in gc.get_objects()), "the end of the call")
    finally:
        gc.enable()


# ---- connections ----


async def test_drain_lets_calls_end_and_refuses_others() -> None:
    async with serving() as (methods, server, port), channel_to(port) as channel:
        method: Any = channel.stream_stream("/test.Server/echo")
        running = method(timeout=WAIT_MAX_S)
        await running.write(b"a")
        assert await running.read() == b"a"
        draining = asyncio.ensure_future(server.drain(WAIT_MAX_S))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            while True:  # calls that were on their way when the client learned of the drain are served
                await unary(channel, "echo")
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        await running.write(b"b")
        assert await running.read() == b"b"
        await running.done_writing()
        assert await running.read() is grpc.aio.EOF
        await draining
        assert methods.cancelled == []


async def test_drain_ends_calls_after_its_grace() -> None:
    async with serving() as (methods, server, port), channel_to(port) as channel:
        call = streamed(channel, "wait")
        assert await call.read() == b"begun"
        await server.drain(0)
        assert (await failure(call)).code() is grpc.StatusCode.UNAVAILABLE
        assert methods.cancelled == ["/test.Server/wait"]


async def test_drain_waits_for_no_client_that_is_silent_and_calls_nothing() -> None:
    async with serving() as (_methods, server, port):
        reader, writer = await asyncio.open_connection(HOST, port)
        client, frames = Http2Peer(is_client=True), list[Frame]()
        writer.write(client.hello())
        while not any("ACK" in frame.flags for frame in frames):  # the answer to the client's settings
            frames += client.read(await reader.read(2**16))
        await server.drain(2 * WAIT_MAX_S)
        assert not server._links
        writer.close()


async def test_drain_returns_after_the_cleanup_of_cancelled_handlers() -> None:
    async with serving() as (methods, server, port), channel_to(port) as channel:
        call = streamed(channel, "clean_up")
        assert await call.read() == b"begun"
        await server.drain(0)
        assert methods.sent == 1


async def test_old_connections_are_renewed_and_no_call_notices() -> None:
    options = ServerOptions(age_s=0.05)
    async with serving(options=options) as (methods, _server, port), channel_to(port) as channel:
        waiting = streamed(channel, "wait")
        assert await waiting.read() == b"begun"
        async with asyncio.timeout(WAIT_MAX_S):
            while len({call.peer for call in methods.calls}) < 4:
                assert await unary(channel, "echo", b"x", wait_for_ready=True) == b"x"
        assert methods.cancelled == []
        waiting.cancel()


async def ended(reader: asyncio.StreamReader) -> None:
    """Waits for the end of a connection, which asyncio reports as an end and uvloop as an error."""
    async with asyncio.timeout(WAIT_MAX_S):
        with suppress(ConnectionError):
            while await reader.read(2**16):
                pass


async def test_connection_beyond_the_limit_is_closed_while_calls_run_on_all_others() -> None:
    options = ServerOptions(connections_max=1)
    async with serving(options=options) as (_methods, _server, port), channel_to(port) as channel:
        waiting = streamed(channel, "wait")
        assert await waiting.read() == b"begun"
        reader, writer = await asyncio.open_connection(HOST, port)
        await ended(reader)
        writer.close()
        waiting.cancel()


@pytest.mark.parametrize("hello", [b"", Http2Peer().hello()], ids=["silent", "idle"])
async def test_idle_connection_of_the_address_with_most_of_them_gives_way_to_a_new_one(hello: bytes) -> None:
    readers: list[asyncio.StreamReader] = []
    async with AsyncExitStack() as stack:
        _methods, server, port = await stack.enter_async_context(serving(options=ServerOptions(connections_max=3)))

        def are_known() -> bool:
            return [link.connection.is_ready for link in server._links] == [bool(hello)] * len(readers)

        for address in ("127.0.0.2", HOST, HOST):
            reader, writer = await asyncio.open_connection(HOST, port, local_addr=(address, 0))
            stack.callback(writer.close)
            readers.append(reader)
            writer.write(hello)
            await until(are_known, "the connection")
        channel = await stack.enter_async_context(channel_to(port))
        assert await unary(channel, "echo", b"x") == b"x"
        await ended(readers[1])
        assert len(server._links) == 3
        assert not any(readers[each].at_eof() for each in (0, 2))


async def test_connection_that_says_nothing_is_closed() -> None:
    async with serving(options=ServerOptions(handshake_timeout_s=0.05)) as (_methods, server, port):
        _reader, writer = await asyncio.open_connection(HOST, port)
        await until(lambda: not server._links, "the end of the connection")
        writer.close()


async def test_vanished_client_is_noticed_while_a_call_runs() -> None:
    options = ServerOptions(keepalive_interval_s=0.05, keepalive_timeout_s=0.2)
    async with serving(options=options) as (methods, server, port):
        with socket.create_connection((HOST, port)) as silent:
            silent.sendall(bytes.fromhex("505249202a20485454502f322e300d0a0d0a534d0d0a0d0a000000040000000000"))
            head = [b":method", b"POST", b":scheme", b"http", b":path", b"/test.Server/wait"]
            head += [b"content-type", b"application/grpc"]
            block = b"".join(
                b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value
                for name, value in zip(head[::2], head[1::2], strict=True)
            )
            silent.sendall(len(block).to_bytes(3, "big") + b"\x01\x04\x00\x00\x00\x01" + block)
            await until(lambda: bool(methods.calls), "the call")
            await until(lambda: bool(methods.cancelled), "the handler's end")
            assert not server._links


# ---- TLS ----


def server_context(pair: Certificate, *, clients: Certificate | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert, pair.key)
    if clients is not None:
        context.load_verify_locations(clients.cert)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


@asynccontextmanager
async def secured(port: int, trusted: Certificate, own: Certificate | None = None) -> AsyncIterator[grpc.aio.Channel]:
    key, chain = (own.key.read_bytes(), own.cert.read_bytes()) if own is not None else (None, None)
    credentials = grpc.ssl_channel_credentials(trusted.cert.read_bytes(), key, chain)
    async with grpc.aio.secure_channel(f"{HOST}:{port}", credentials, options=UNLIMITED) as channel:
        yield channel


async def test_certificates_of_clients_are_verified_and_shown_to_handlers(tmp_path: Path) -> None:
    ca, other = authority(tmp_path, "ca"), authority(tmp_path, "other")
    own, stranger = signed_by(ca, tmp_path, "client"), signed_by(other, tmp_path, "stranger")
    context = server_context(signed_by(ca, tmp_path, "server"), clients=ca)
    async with serving(read_tls=lambda: context) as (methods, server, port):
        async with secured(port, ca, own) as channel:
            assert await unary(channel, "echo", b"x" * 10**6) == b"x" * 10**6
        assert ("DNS", "localhost") in methods.calls[0].certificate["subjectAltName"]
        for rejected in (stranger, None):
            async with secured(port, ca, rejected) as channel:
                assert (await failure(unary(channel, "echo"))).code() is grpc.StatusCode.UNAVAILABLE
        assert len(methods.calls) == 1
        await until(lambda: not server._links, "the end of all connections")


async def test_changed_certificates_are_used_by_new_connections_only(tmp_path: Path) -> None:
    first, second = authority(tmp_path, "first"), authority(tmp_path, "second")
    contexts = [server_context(signed_by(ca, tmp_path, ca.cert.stem + "-server")) for ca in (first, second)]
    async with serving(read_tls=lambda: contexts[0]) as (methods, _server, port):
        async with secured(port, first) as old:
            running: Any = old.stream_stream("/test.Server/echo")
            call = running(timeout=WAIT_MAX_S)
            await call.write(b"a")
            assert await call.read() == b"a"
            del contexts[0]
            async with secured(port, second) as new:
                assert await unary(new, "echo", b"x") == b"x"
            await call.write(b"b")
            assert await call.read() == b"b"
            call.cancel()
        assert methods.cancelled in ([], ["/test.Server/echo"])


@pytest.mark.parametrize("alpn", [["http/1.1"], []])
async def test_client_that_does_not_agree_to_http2_is_closed(tmp_path: Path, alpn: Sequence[str]) -> None:
    ca = authority(tmp_path, "ca")
    context = server_context(signed_by(ca, tmp_path, "server"))
    client = ssl.create_default_context(cafile=str(ca.cert))
    if alpn:
        client.set_alpn_protocols(list(alpn))
    async with serving(read_tls=lambda: context) as (_methods, server, port):
        reader, writer = await asyncio.open_connection(HOST, port, ssl=client)
        with suppress(OSError):  # uvloop reports an error
            assert await reader.read() == b""
        await until(lambda: not server._links, "the end of the connection")
        writer.close()


async def test_handshake_that_never_ends_counts_as_a_connection_and_times_out(tmp_path: Path) -> None:
    context = server_context(signed_by(authority(tmp_path, "ca"), tmp_path, "server"))
    options = ServerOptions(handshake_timeout_s=0.2)
    async with serving(read_tls=lambda: context, options=options) as (_methods, server, port):
        _reader, writer = await asyncio.open_connection(HOST, port)
        await until(lambda: len(server._links) == 1, "the connection")
        await until(lambda: not server._links, "the end of the handshake")
        writer.close()
