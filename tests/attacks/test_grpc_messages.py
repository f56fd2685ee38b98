"""Attack 12: messages that a method does not declare. The server rejects them as the caller's mistake and logs no fault
of its own: otherwise any caller could fill the disk with tracebacks, without a token."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from antiphon_core.clock import SystemClock
from antiphon_core.rpc.methods import APIS, STORE, TOOLS, TRANSLATOR
from antiphon_core.rpc.server import RpcServer
from antiphon_store.backends.memory import MemoryRows
from antiphon_store.server import handlers
from antiphon_store.service import StoreService
from antiphon_tools.server import handlers as tool_handlers
from antiphon_tools.service import ToolService
from antiphon_tools.settings import ToolsSettings
from antiphon_translator.server import handlers as translator_handlers
from tests.support.translators import ScriptedTranslator
from tests.support.wire_types import tagged, wrong_wire_types

CHECK, WATCH, LIST = (f"/grpc.health.v1.Health/{name}" for name in ("Check", "Watch", "List"))
REFLECTION = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
BROKEN = (b"\xff" * 8, b"\x0a", b"\x0a\x02\xff\xfe", b"\x0b" * 200)


@pytest.fixture
async def channel() -> AsyncIterator[grpc.aio.Channel]:
    """A channel to a store, a translator and the tools service on one server."""
    backend, translator, server = MemoryRows(SystemClock()), ScriptedTranslator(), RpcServer()
    await backend.open()
    store = StoreService(backend)
    server.add(STORE, handlers(store), ready=store.ready)
    server.add(TRANSLATOR, translator_handlers(translator), ready=translator.ready)
    server.add(TOOLS, tool_handlers(ToolService(ToolsSettings())), ready=translator.ready)
    port = await server.start("127.0.0.1", 0)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as opened:
        yield opened
    await server.drain(0)


async def outcome(channel: grpc.aio.Channel, path: str, data: bytes) -> tuple[grpc.StatusCode, str]:
    """Returns the status of a call with one message, for a method of any kind."""
    method: Any = channel.unary_stream(path)
    call = method(data, timeout=60)
    try:
        await call.read()
        call.cancel()
    except grpc.aio.AioRpcError as error:
        return error.code(), error.details() or ""
    return grpc.StatusCode.OK, ""


async def test_a_field_of_a_wrong_wire_type_is_rejected_with_its_name(channel: grpc.aio.Channel) -> None:
    """Sends messages of a single field, for which the server once answered INTERNAL."""
    sent = 0
    for method in (method for api in APIS for method in api.methods.values()):
        for field in method.request.strict.DESCRIPTOR.fields:
            for wire_type in wrong_wire_types(field):
                code, message = await outcome(channel, method.path, tagged(field.number, wire_type))
                assert (code, field.name in message) == (grpc.StatusCode.INVALID_ARGUMENT, True), method.path
                sent += 1
    assert sent > 400


@pytest.mark.parametrize("path", [CHECK, WATCH, REFLECTION])
async def test_health_and_reflection_reject_malformed_messages(
    channel: grpc.aio.Channel, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    for data in BROKEN:
        assert (await outcome(channel, path, data))[0] is grpc.StatusCode.INVALID_ARGUMENT, data
    assert_nothing_broke(caplog)


async def test_a_method_of_health_that_is_not_served_is_unimplemented(
    channel: grpc.aio.Channel, caplog: pytest.LogCaptureFixture
) -> None:
    for data in (b"", *BROKEN):
        assert (await outcome(channel, LIST, data))[0] is grpc.StatusCode.UNIMPLEMENTED
    assert_nothing_broke(caplog)


@pytest.mark.parametrize("path", [CHECK, REFLECTION])
async def test_a_call_without_a_message_logs_no_error(
    channel: grpc.aio.Channel, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    method: Any = channel.stream_stream(path)
    call = method(iter([]), timeout=60)
    try:
        assert await call.read() is grpc.aio.EOF
    except grpc.aio.AioRpcError as error:
        assert error.code() is grpc.StatusCode.INVALID_ARGUMENT  # noqa: PT017 - reflection ends without an error instead
    assert_nothing_broke(caplog)


def assert_nothing_broke(caplog: pytest.LogCaptureFixture) -> None:
    assert [record for record in caplog.records if record.levelno >= logging.ERROR or record.exc_info] == []
