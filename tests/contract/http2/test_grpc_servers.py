"""The lean gRPC client against gRPC's own server, over TCP, on both event loops."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import grpc
import pytest

from antiphon_core.flow import Flow
from antiphon_http2.client.client import GrpcCall, GrpcStreams
from antiphon_http2.client.options import Options
from antiphon_http2.errors import ConnectionLost, GrpcError
from tests.support.certificates import Certificate, authority, signed_by
from tests.support.ports import free_ports
from tests.support.stream_server import HOST, StreamServer, relaying, serving
from tests.support.waiting import WAIT_MAX_S, until, with_retries

LONG_CONNECT = Options(connect_timeout_s=WAIT_MAX_S)


class Received:
    """The messages that one call receives."""

    def __init__(self) -> None:
        self.messages: list[bytes] = []
        self.calls = 0

    def __call__(self, messages: Sequence[bytes]) -> None:
        self.messages += messages
        self.calls += 1


@asynccontextmanager
async def client(
    port: int, *, options: Options = LONG_CONNECT, tls: ssl.SSLContext | None = None
) -> AsyncIterator[GrpcStreams]:
    read_tls = None if tls is None else lambda: tls
    streams = GrpcStreams(f"{HOST}:{port}", options=options, read_tls=read_tls)
    try:
        yield streams
    finally:
        await streams.close()


@asynccontextmanager
async def connected(
    *options: tuple[str, object], client_options: Options = LONG_CONNECT
) -> AsyncIterator[tuple[GrpcStreams, StreamServer]]:
    server = StreamServer()
    async with serving(server, options=options) as (_running, port), client(port, options=client_options) as streams:
        yield streams, server


async def answers(streams: GrpcStreams, method: str, message: bytes = b"", **options: object) -> list[bytes]:
    """All messages of a call that succeeds."""
    received = Received()
    call = await streams.start(f"/test.Streams/{method}", message, received, **options)  # type: ignore[arg-type]
    await call.wait_end()
    return received.messages


async def failure(call: GrpcCall) -> GrpcError:
    with pytest.raises(GrpcError) as caught:
        await call.wait_end()
    return caught.value


async def listen_only(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A server that sends nothing until the client disconnects."""
    with suppress(ConnectionError):
        await reader.read()
    writer.close()


# ---- messages ----


async def test_messages_arrive_in_order_and_the_call_ends() -> None:
    async with connected() as (streams, _server):
        assert await answers(streams, "count", b"1000") == [b"%d" % number for number in range(1000)]


async def test_empty_message_is_delivered() -> None:
    async with connected() as (streams, _server):
        assert await answers(streams, "echo") == [b""]


async def test_large_messages_go_both_ways() -> None:
    async with connected(("grpc.max_send_message_length", -1)) as (streams, _server):
        message = bytes(range(256)) * 20_000
        assert await answers(streams, "echo", message) == [message]


@pytest.mark.parametrize(
    "options",
    [
        [("grpc.max_concurrent_streams", 2)],
        [("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 1_024)],
        [("grpc.http2.hpack_table_size.decoder", 0), ("grpc.http2.hpack_table_size.encoder", 0)],
        [("grpc.http2.max_frame_size", 2**20)],
    ],
    ids=["two streams", "small windows", "no header tables", "large frames"],
)
async def test_settings_of_servers_are_followed(options: list[tuple[str, object]]) -> None:
    async with connected(*options) as (streams, _server):
        message = b"x" * 300_000
        all_answers = await asyncio.gather(*(answers(streams, "echo", message) for _ in range(20)))
        assert all_answers == [[message]] * 20


async def test_small_messages_are_not_held_back_by_tcp() -> None:
    async with connected() as (streams, _server):
        await answers(streams, "echo")
        transport = streams._link._transport  # type: ignore[union-attr]
        assert transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)  # type: ignore[union-attr]


async def test_many_calls_share_one_connection() -> None:
    async with serving(StreamServer()) as (_running, port), relaying(port) as relay, client(relay.port) as streams:
        all_answers = await asyncio.gather(*(answers(streams, "count", b"50") for _ in range(200)))
        assert all_answers == [[b"%d" % number for number in range(50)]] * 200
        assert relay.connections == 1


async def test_metadata_reaches_the_server() -> None:
    async with connected() as (streams, _server):
        seen = await answers(streams, "metadata", metadata=[("x-request-id", "abc"), ("x-bytes-bin", "AQI=")])
        assert {b"x-request-id=abc", b"x-bytes-bin=b'\\x01\\x02'", b"user-agent=antiphon"} <= set(seen)


async def test_invalid_metadata_is_rejected_before_the_call_is_sent() -> None:
    streams = GrpcStreams("nowhere.invalid:1")
    with pytest.raises(ValueError, match="metadata"):
        await streams.start("/a/b", b"", Received(), metadata=[("Not A Name", "")])


# ---- errors ----


async def test_error_of_the_server_comes_with_its_details_after_its_messages() -> None:
    async with connected() as (streams, _server):
        received = Received()
        error = await failure(await streams.start("/test.Streams/fail", "café 100%".encode(), received))
        assert received.messages == ["café 100%".encode()]
        assert (error.status, error.message, error.details) == (3, "café 100%", b"\x00details\xff")


async def test_error_without_messages_and_unknown_method_have_their_grpc_status() -> None:
    async with connected() as (streams, _server):
        error = await failure(await streams.start("/test.Streams/fail_at_once", b"none", Received()))
        assert (error.status, error.message) == (5, "none")
        assert (await failure(await streams.start("/test.Streams/unknown", b"", Received()))).status == 12


async def test_message_above_the_limit_ends_the_call_on_both_sides() -> None:
    options = Options(connect_timeout_s=WAIT_MAX_S, message_bytes_max=1_000)
    async with connected(client_options=options) as (streams, server):
        error = await failure(await streams.start("/test.Streams/hold", b"x" * 1_001, Received()))
        assert error.status == grpc.StatusCode.RESOURCE_EXHAUSTED.value[0]
        await until(lambda: server.seen == ["cancelled"], "the server sees the end of the call")


async def test_error_in_the_receiver_ends_the_call_on_both_sides() -> None:
    async with connected() as (streams, server):

        def fail(_messages: Sequence[bytes]) -> None:
            raise LookupError("mine")

        call = await streams.start("/test.Streams/hold", b"a", fail)
        with pytest.raises(LookupError, match="mine"):
            await call.wait_end()
        await until(lambda: server.seen == ["cancelled"], "the server sees the end of the call")


async def test_timeout_ends_the_call() -> None:
    async with connected() as (streams, _server):
        call = await streams.start("/test.Streams/hold", b"a", Received(), timeout_s=0.2)
        assert (await failure(call)).status == grpc.StatusCode.DEADLINE_EXCEEDED.value[0]
        assert not call.cancel()


async def test_timeout_covers_connecting() -> None:
    silent = await asyncio.start_server(listen_only, HOST, 0)
    async with silent, client(silent.sockets[0].getsockname()[1]) as streams:
        with pytest.raises(GrpcError) as caught:
            await streams.start("/test.Streams/echo", b"", Received(), timeout_s=0.05)
        assert caught.value.status == grpc.StatusCode.DEADLINE_EXCEEDED.value[0]


# ---- cancelling ----


async def test_cancel_is_seen_by_the_server_and_ends_the_call() -> None:
    async with connected() as (streams, server):
        received = Received()
        call = await streams.start("/test.Streams/hold", b"a", received)
        await until(lambda: received.calls > 0, "the first message")
        assert call.cancel()
        assert (await failure(call)).status == grpc.StatusCode.CANCELLED.value[0]
        assert not call.cancel()
        await until(lambda: server.seen == ["cancelled"], "the server sees the cancellation")
        assert await answers(streams, "echo", b"b") == [b"b"]


async def test_call_that_waits_for_a_stream_can_be_cancelled() -> None:
    async with connected(("grpc.max_concurrent_streams", 1)) as (streams, server):
        received, waiting_received = Received(), Received()
        call = await streams.start("/test.Streams/hold", b"a", received)
        await until(lambda: received.calls > 0, "the first message")
        waiting = await streams.start("/test.Streams/echo", b"b", waiting_received)
        assert waiting.cancel()
        assert (await failure(waiting)).status == grpc.StatusCode.CANCELLED.value[0]
        server.released.set()
        await call.wait_end()
        assert await answers(streams, "echo", b"c") == [b"c"]
        assert waiting_received.messages == []


async def test_cancelling_a_waiting_task_does_not_end_the_call() -> None:
    async with connected() as (streams, server):
        received = Received()
        call = await streams.start("/test.Streams/hold", b"a", received)
        waiting = asyncio.create_task(call.wait_end())
        await until(lambda: received.calls > 0, "the first message")
        waiting.cancel()
        await asyncio.wait((waiting,))
        server.released.set()
        await call.wait_end()
        assert received.messages == [b"a", b"a"]


# ---- flow control ----


async def test_paused_call_buffers_at_most_one_window_while_others_go_on() -> None:
    options = Options(connect_timeout_s=WAIT_MAX_S, stream_window_bytes=100_000)
    async with connected(client_options=options) as (streams, server):
        flow, slow = Flow(), Received()
        flow.pause(slow)
        call = await streams.start("/test.Streams/bulk", b"2000", slow, flow=flow)
        assert len(await answers(streams, "count", b"2000")) == 2_000
        await until(lambda: call._stream.owed_bytes > 50_000, "the window fills")
        assert call._stream.owed_bytes <= 100_000
        assert slow.messages == []
        assert server.sent < 2_000
        flow.resume(slow)
        await call.wait_end()
        assert len(slow.messages) == 2_000


async def test_receiver_that_pauses_after_each_read_receives_everything() -> None:
    async with connected() as (streams, _server):
        flow, received = Flow(), Received()

        def receive(messages: Sequence[bytes]) -> None:
            assert not flow.is_paused
            received(messages)
            flow.pause(received)
            asyncio.get_running_loop().call_soon(flow.resume, received)

        call = await streams.start("/test.Streams/bulk", b"500", receive, flow=flow)
        await call.wait_end()
        assert len(received.messages) == 500


async def test_flow_that_is_resumed_after_its_call_does_nothing() -> None:
    async with connected() as (streams, _server):
        flow, received = Flow(), Received()
        call = await streams.start("/test.Streams/hold", b"a", received, flow=flow)
        flow.pause(received)
        flow.resume(received)
        call.cancel()
        await failure(call)
        flow.pause(received)
        flow.resume(received)
        await asyncio.sleep(0)
        assert received.messages in ([], [b"a"])
        assert flow._listeners == []


async def test_flow_that_is_paused_again_at_once_stays_paused() -> None:
    async with connected() as (streams, server):
        flow, received = Flow(), Received()
        flow.pause(received)
        call = await streams.start("/test.Streams/hold", b"a", received, flow=flow)
        await until(lambda: call._stream.owed_bytes > 0, "the first message waits")
        flow.resume(received)
        flow.pause(received)
        assert await answers(streams, "echo", b"b") == [b"b"]
        assert received.messages == []
        flow.resume(received)
        server.released.set()
        await call.wait_end()
        assert received.messages == [b"a", b"a"]


# ---- connections that end ----


async def test_graceful_stop_lets_calls_end_and_the_next_server_is_used() -> None:
    (port,) = free_ports(1)
    first, second = StreamServer(), StreamServer()
    async with client(port) as streams:
        async with serving(first, port=port) as (running, _port):
            received = Received()
            call = await streams.start("/test.Streams/hold", b"a", received)
            await until(lambda: received.calls > 0, "the first message")
            stopping = asyncio.create_task(running.stop(WAIT_MAX_S))
            await until(lambda: not streams._link.connection.calls.can_open, "GOAWAY")  # type: ignore[union-attr]
            first.released.set()
            await call.wait_end()
            await stopping
            assert received.messages == [b"a", b"a"]
        async with serving(second, port=port):
            assert await with_retries(lambda: answers(streams, "echo", b"b"), ConnectionLost) == [b"b"]


async def test_lost_connection_ends_calls_and_the_next_call_makes_another() -> None:
    async with serving(StreamServer()) as (_running, port), relaying(port) as relay, client(relay.port) as streams:
        received = Received()
        calls = [await streams.start("/test.Streams/hold", b"a", received) for _ in range(3)]
        await until(lambda: len(received.messages) == 3, "the first messages")
        relay.cut()
        for call in calls:
            assert isinstance(await failure(call), ConnectionLost)
        assert await with_retries(lambda: answers(streams, "echo", b"b"), ConnectionLost) == [b"b"]
        assert relay.connections == 2


async def test_close_ends_open_calls_and_takes_no_more() -> None:
    async with connected() as (streams, _server):
        received = Received()
        call = await streams.start("/test.Streams/hold", b"a", received)
        await until(lambda: received.calls > 0, "the first message")
        await streams.close()
        assert isinstance(await failure(call), ConnectionLost)
        with pytest.raises(ConnectionLost):
            await streams.start("/test.Streams/echo", b"", received)


async def test_close_ends_callers_that_wait_for_the_connection() -> None:
    silent = await asyncio.start_server(listen_only, HOST, 0)
    async with silent, client(silent.sockets[0].getsockname()[1]) as streams:
        waiting = asyncio.create_task(streams.start("/test.Streams/echo", b"", Received()))
        await until(lambda: streams._attempt is not None, "the attempt begins")
        await streams.close()
        with pytest.raises(ConnectionLost):
            await waiting


async def test_cancelled_caller_leaves_the_connection_attempt_to_others() -> None:
    async with connected() as (streams, _server):
        cancelled = asyncio.create_task(streams.start("/test.Streams/echo", b"", Received()))
        others = [asyncio.create_task(answers(streams, "echo", b"a")) for _ in range(2)]
        await asyncio.sleep(0)
        cancelled.cancel()
        assert await asyncio.gather(*others) == [[b"a"]] * 2
        assert cancelled.cancelled()


async def test_calls_fail_at_once_between_connection_attempts() -> None:
    (port,) = free_ports(1)
    options = Options(connect_timeout_s=WAIT_MAX_S, backoff_first_s=WAIT_MAX_S)
    async with client(port, options=options) as streams:
        all_ends = await asyncio.gather(
            *(streams.start("/test.Streams/echo", b"", Received()) for _ in range(5)), return_exceptions=True
        )
        assert all(isinstance(end, ConnectionLost) and end.is_unprocessed for end in all_ends)
        with pytest.raises(ConnectionLost, match="not tried again yet"):
            await streams.start("/test.Streams/echo", b"", Received())


@pytest.mark.parametrize("greeting", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b""], ids=["HTTP/1", "hangs up"])
async def test_server_that_does_not_speak_grpc_raises_connection_lost(greeting: bytes) -> None:
    async def greet(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(greeting)
        writer.close()
        await writer.wait_closed()

    other = await asyncio.start_server(greet, HOST, 0)
    async with other, client(other.sockets[0].getsockname()[1]) as streams:
        with pytest.raises(ConnectionLost):
            await streams.start("/test.Streams/echo", b"", Received())


async def test_silent_server_ends_with_a_connect_timeout() -> None:
    silent = await asyncio.start_server(listen_only, HOST, 0)
    options = Options(connect_timeout_s=0.1)
    async with silent, client(silent.sockets[0].getsockname()[1], options=options) as streams:
        with pytest.raises(ConnectionLost, match=r"within 0\.1 s"):
            await streams.start("/test.Streams/echo", b"", Received())


# ---- TLS ----


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Certificate]:
    """The authority's certificate, and the server certificate that the authority signed."""
    folder = tmp_path_factory.mktemp("tls")
    root = authority(folder, "root")
    return root.cert, signed_by(root, folder, "server")


async def test_tls_carries_calls(certificate: tuple[Path, Certificate]) -> None:
    root, pair = certificate
    credentials = grpc.ssl_server_credentials([(pair.key.read_bytes(), pair.cert.read_bytes())])
    tls = ssl.create_default_context(cafile=str(root))
    async with serving(StreamServer(), credentials=credentials) as (_running, port), client(port, tls=tls) as streams:
        message = b"x" * 2_000_000
        assert await answers(streams, "echo", message) == [message]
        assert len(await answers(streams, "count", b"500")) == 500


async def test_certificate_of_a_stranger_is_refused(certificate: tuple[Path, Certificate], tmp_path: Path) -> None:
    _root, pair = certificate
    credentials = grpc.ssl_server_credentials([(pair.key.read_bytes(), pair.cert.read_bytes())])
    tls = ssl.create_default_context(cafile=str(authority(tmp_path, "stranger").cert))
    async with serving(StreamServer(), credentials=credentials) as (_running, port), client(port, tls=tls) as streams:
        with pytest.raises(ConnectionLost, match="certificate"):
            await streams.start("/test.Streams/echo", b"", Received())


async def test_tls_server_without_http2_is_refused(certificate: tuple[Path, Certificate]) -> None:
    root, pair = certificate
    server_tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_tls.load_cert_chain(pair.cert, pair.key)
    other = await asyncio.start_server(listen_only, HOST, 0, ssl=server_tls)
    tls = ssl.create_default_context(cafile=str(root))
    async with other, client(other.sockets[0].getsockname()[1], tls=tls) as streams:
        with pytest.raises(ConnectionLost, match="HTTP/2"):
            await streams.start("/test.Streams/echo", b"", Received())
