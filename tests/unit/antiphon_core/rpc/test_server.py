"""Calls from their handler to the caller's error, without a connection. tests/service has them over sockets."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from antiphon_core.errors import (
    TABLE,
    AntiphonError,
    InternalError,
    InvalidRequest,
    Row,
    StoreUnavailable,
    Unimplemented,
)
from antiphon_core.rpc.methods import STORE, TRANSLATOR
from antiphon_core.rpc.server import Call, Handler, RpcServer
from antiphon_core.rpc.status import from_grpc_error
from antiphon_http2.errors import GrpcError
from antiphon_protos.antiphon.store import v1
from tests.support.fake_call import FakeCall

GENERATE = TRANSLATOR.methods["Generate"]
GENERATED = GENERATE.response.message
GET, READ_EVENTS = (STORE.methods[name] for name in ("GetResponseRecord", "ReadEvents"))
EVENTS = READ_EVENTS.response.message


async def ready() -> None:
    pass


async def served(path: str, call: FakeCall, **handlers: Handler) -> FakeCall:
    server = RpcServer()
    for api in (STORE, TRANSLATOR):
        server.add(api, {name: handler for name, handler in handlers.items() if name in api.methods}, ready=ready)
    await server._methods[path](call.call)
    assert server._intake.budget.is_unused
    return call


def raising(error: Exception) -> Handler:
    async def handler(_request: Any, _call: Call) -> Any:
        raise error

    return handler


def error_of(call: FakeCall) -> AntiphonError:
    """The error that a client raises for the end of a call."""
    assert call.status is not None
    return from_grpc_error(
        GrpcError(call.status.code, call.status.message, details=call.status.details), StoreUnavailable
    )


async def test_answer_of_a_handler_is_sent() -> None:
    async def get(request: Any, call: Call) -> Any:
        return v1.GetResponseRecordResponse(record=v1.ResponseRecord(id=f"{call.tenant} {request.id}"))

    request, metadata = bytes(v1.GetResponseRecordRequest(id="resp_1")), (("antiphon-tenant", "acme"),)
    call = await served(GET.path, FakeCall(request, metadata=metadata), GetResponseRecord=get)
    assert v1.GetResponseRecordResponse.parse(call.sent[0]).record == v1.ResponseRecord(id="acme resp_1")
    assert call.status is None


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.reason)
async def test_error_of_a_handler_is_raised_again_by_the_client(row: Row) -> None:
    error = row.error("what happened", field="record.body", id="resp_1")
    back = error_of(await served(GET.path, FakeCall(b""), GetResponseRecord=raising(error)))
    assert type(back) is row.error
    assert (back.message, back.field, back.facts) == ("what happened", "record.body", {"id": "resp_1"})


async def test_bug_is_an_internal_error_without_its_cause(caplog: pytest.LogCaptureFixture) -> None:
    call = await served(GET.path, FakeCall(b""), GetResponseRecord=raising(ZeroDivisionError("secret detail")))
    assert call.status is not None
    assert type(error_of(call)) is InternalError
    assert "secret" not in call.status.message
    assert "secret detail" in caplog.text


async def test_rpc_without_a_handler_is_unimplemented() -> None:
    assert type(error_of(await served(GET.path, FakeCall(b"")))) is Unimplemented


async def test_call_without_a_request_is_invalid() -> None:
    assert type(error_of(await served(GET.path, FakeCall(), GetResponseRecord=raising(KeyError())))) is InvalidRequest


async def test_tenant_that_is_no_text_is_invalid_and_not_the_default_one() -> None:
    call = FakeCall(b"", metadata=(("antiphon-tenant", b"\xff"),))
    error = error_of(await served(GET.path, call, GetResponseRecord=raising(KeyError())))
    assert (type(error), error.field) == (InvalidRequest, "antiphon-tenant")


async def test_error_of_a_stream_comes_after_its_earlier_answers() -> None:
    async def events(_request: Any, _call: Call) -> AsyncGenerator[Any, None]:
        for number in range(2):
            yield EVENTS(first_sequence=number)
        raise StoreUnavailable("the disk is gone")

    call = await served(READ_EVENTS.path, FakeCall(b""), ReadEvents=events)
    assert [EVENTS.FromString(answer).first_sequence for answer in call.sent] == [0, 1]
    assert type(error_of(call)) is StoreUnavailable


async def test_answers_whose_caller_is_checked_again_are_yielded() -> None:
    async def read(_request: Any, call: Call) -> AsyncGenerator[Any, None]:
        assert call.pusher is None
        yield EVENTS(frames=b"a")

    assert len((await served(READ_EVENTS.path, FakeCall(b""), ReadEvents=read)).sent) == 1


async def test_answers_of_other_streams_can_be_pushed() -> None:
    async def generate(_request: Any, call: Call) -> AsyncGenerator[Any, None]:
        assert call.pusher is not None
        assert call.pusher.push(GENERATED(frames=b"a"))
        yield GENERATED(frames=b"b")

    call = await served(GENERATE.path, FakeCall(b""), Generate=generate)
    assert [GENERATED.FromString(each).frames for each in call.sent] == [b"a", b"b"]
