"""Errors and deadlines end to end, without a socket and with a manual clock: grpcio-testing replaces the wire.

grpcio-testing has threads and no event loop. Therefore a servicer runs each asynchronous handler to its end in the
thread of grpcio-testing, and the client's side is `from_rpc_error`, which the client calls for an error. The channel of
grpcio-testing has no deadlines; the server of grpcio-testing has them.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import grpc
import grpc_testing
import pytest

from antiphon_core.errors import TABLE, InternalError, Row, StoreUnavailable, Timeout, Unimplemented
from antiphon_core.rpc.delivery import Delivery
from antiphon_core.rpc.intake import Intake, IntakeLimits
from antiphon_core.rpc.methods import STORE
from antiphon_core.rpc.server import OPEN, Call, Handler, _rpc_handler, _Served, _unimplemented
from antiphon_core.rpc.status import from_rpc_error
from antiphon_core.telemetry.log_limit import LogLimit
from antiphon_protos.antiphon.store import v1

WAIT_MAX_S = 10
READ_EVENTS_RESPONSE = STORE.methods["ReadEvents"].response.message
RESPONSES, EVENT_LOGS = (STORE.services[0].descriptor, STORE.services[5].descriptor)
GET, READ_EVENTS = RESPONSES.methods_by_name["GetResponseRecord"], EVENT_LOGS.methods_by_name["ReadEvents"]


class AioContext:
    """The part of grpc.aio's context that our handlers use, on top of grpcio-testing's context."""

    def __init__(self, context: Any, data: bytes) -> None:
        self.context = context
        self.data = data

    async def read(self) -> bytes:
        return self.data

    def invocation_metadata(self) -> Any:
        return self.context.invocation_metadata()

    def time_remaining(self) -> float | None:
        remaining: float | None = self.context.time_remaining()
        return remaining

    def peer(self) -> str:
        return "grpcio-testing"

    async def abort_with_status(self, status: grpc.Status) -> None:
        self.context.set_code(status.code)
        self.context.set_details(status.details)
        self.context.set_trailing_metadata(status.trailing_metadata)
        raise grpc.aio.AbortError


class Servicer:
    """A service for grpcio-testing: an object with a method for each RPC, which runs our handler."""

    def __init__(self, handlers: dict[str, Handler]) -> None:
        for name, method in STORE.methods.items():
            intake, delivery = Intake(IntakeLimits()), Delivery(IntakeLimits())
            served = _Served(
                method, handlers.get(name, _unimplemented(method)), OPEN, intake, delivery, defaultdict(LogLimit)
            )
            handler: Any = _rpc_handler(served)
            is_stream = method.streams
            setattr(self, name, self.stream(handler.stream_stream) if is_stream else self.unary(handler.stream_unary))

    def unary(self, serve: Any) -> Any:
        def call(data: bytes, context: Any) -> bytes:
            try:
                answer: bytes = asyncio.run(serve(None, AioContext(context, data)))
            except grpc.aio.AbortError:
                return b""
            return answer

        return call

    def stream(self, serve: Any) -> Any:
        def call(data: bytes, context: Any) -> Iterator[bytes]:
            answers = serve(None, AioContext(context, data))
            with asyncio.Runner() as runner:
                try:
                    while True:
                        yield runner.run(anext(answers))
                except (StopAsyncIteration, grpc.aio.AbortError):
                    return

        return call


class Wire:
    """A server and a channel double that live by one clock."""

    def __init__(self, **handlers: Handler) -> None:
        self.time: Any = grpc_testing.strict_fake_time(1_700_000_000)
        servicers = dict.fromkeys((RESPONSES, EVENT_LOGS), Servicer(handlers))
        self.server: Any = grpc_testing.server_from_dictionary(servicers, self.time)
        self.channel: Any = grpc_testing.channel([RESPONSES, EVENT_LOGS], self.time)

    def serve(self, request: Any, *, timeout_s: float | None = None) -> Any:
        """Sends a Get to the server."""
        return self.server.invoke_unary_unary(GET, (), bytes(request), timeout_s)

    def fail(self, trailing_metadata: Any, code: grpc.StatusCode, details: str) -> Exception:
        """The error that the client raises for a Get with this status."""
        with ThreadPoolExecutor(1) as client:
            call = client.submit(self.channel.unary_unary(STORE.methods["GetResponseRecord"].path), b"")
            _metadata, _request, rpc = self.channel.take_unary_unary(GET)
            rpc.terminate(None, trailing_metadata, code, details)
            error: Any = call.exception(WAIT_MAX_S)
        return from_rpc_error(error, StoreUnavailable)


def raising(error: Exception) -> Handler:
    async def handler(_request: Any, _call: Call) -> Any:
        raise error

    return handler


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.reason)
def test_every_error_of_a_handler_is_raised_again_by_the_client(row: Row) -> None:
    wire = Wire(GetResponseRecord=raising(row.error("what happened", field="record.body", id="resp_1")))
    _answer, trailing_metadata, code, details = wire.serve(v1.GetResponseRecordRequest(id="resp_1")).termination()
    assert (code.name, details) == (row.grpc_status.name, "what happened")
    back = wire.fail(trailing_metadata, code, details)
    assert type(back) is row.error
    assert (back.message, back.field, back.facts) == ("what happened", "record.body", {"id": "resp_1"})


def test_a_bug_is_an_internal_error_without_its_cause(caplog: pytest.LogCaptureFixture) -> None:
    wire = Wire(GetResponseRecord=raising(ZeroDivisionError("secret detail")))
    _answer, trailing_metadata, code, details = wire.serve(v1.GetResponseRecordRequest()).termination()
    assert type(wire.fail(trailing_metadata, code, details)) is InternalError
    assert "secret" not in details
    assert "secret detail" in caplog.text


def test_an_rpc_without_a_handler_is_unimplemented() -> None:
    wire = Wire()
    _answer, trailing_metadata, code, details = wire.serve(v1.GetResponseRecordRequest()).termination()
    assert type(wire.fail(trailing_metadata, code, details)) is Unimplemented


def test_an_error_of_a_stream_comes_after_its_earlier_answers() -> None:
    async def events(_request: Any, _call: Call) -> AsyncGenerator[Any, None]:
        for number in range(2):
            yield READ_EVENTS_RESPONSE(first_sequence=number)
        raise StoreUnavailable("the disk is gone")

    wire = Wire(ReadEvents=events)
    rpc = wire.server.invoke_unary_stream(READ_EVENTS, (), b"", None)
    seen = [READ_EVENTS_RESPONSE.FromString(rpc.take_response()).first_sequence for _ in range(2)]
    trailing_metadata, code, details = rpc.termination()
    assert seen == [0, 1]
    assert type(wire.fail(trailing_metadata, code, details)) is StoreUnavailable


def test_a_handler_knows_how_much_time_is_left() -> None:
    calls: list[Call] = []

    async def get(_request: Any, call: Call) -> Any:
        calls.append(call)
        return v1.GetResponseRecordResponse()

    wire = Wire(GetResponseRecord=get)
    for timeout_s in (5, 0.25, None):
        wire.serve(v1.GetResponseRecordRequest(), timeout_s=timeout_s).termination()
        wire.time.sleep_for(3)
    assert [call.time_remaining_s for call in calls] == [5, 0.25, None]


@pytest.mark.parametrize(("passing_s", "expected"), [(4.999, None), (5, Timeout)])
def test_a_deadline_ends_a_call_on_time(passing_s: float, expected: type[Exception] | None) -> None:
    begun, release = Event(), Event()

    async def get(_request: Any, _call: Call) -> Any:
        begun.set()
        release.wait(WAIT_MAX_S)
        return v1.GetResponseRecordResponse()

    wire = Wire(GetResponseRecord=get)
    deadline_s = STORE.methods["GetResponseRecord"].deadline_s
    rpc = wire.serve(v1.GetResponseRecordRequest(), timeout_s=deadline_s)
    assert begun.wait(WAIT_MAX_S)
    wire.time.sleep_for(passing_s)
    release.set()
    _answer, trailing_metadata, code, details = rpc.termination()
    if expected is None:
        assert code is grpc.StatusCode.OK
    else:
        assert type(wire.fail(trailing_metadata, code, details)) is expected
