from __future__ import annotations

from urllib.parse import quote

import grpc
import pytest
from grpc.aio import AioRpcError, Metadata

from antiphon_core.errors import (
    TABLE,
    InternalError,
    PermissionDenied,
    Row,
    StaleFence,
    StoreUnavailable,
    Timeout,
    TooLarge,
    TranslatorUnavailable,
    Unauthenticated,
    Unimplemented,
)
from antiphon_core.rpc.status import from_bytes, from_rpc_error, to_bytes, to_status

TRAILERS_BYTES_MAX = 8_192  # gRPC drops a stream with more of them


def rpc_error(status: grpc.Status) -> AioRpcError:
    trailers = Metadata(*(status.trailing_metadata or ()))
    return AioRpcError(status.code, Metadata(), trailers, status.details)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.reason)
def test_every_error_crosses_the_wire_as_itself(row: Row) -> None:
    error = row.error("what happened", field="record.body", id="resp_1")
    status = to_status(error)
    assert status.code.value[0] == row.grpc_status
    back = from_rpc_error(rpc_error(status), StoreUnavailable)
    assert type(back) is row.error
    assert (back.message, back.field, back.facts) == ("what happened", "record.body", {"id": "resp_1"})


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.reason)
def test_every_error_is_itself_after_a_way_as_bytes(row: Row) -> None:
    error = row.error("what happened", field="record.body", id="resp_1")
    back = from_bytes(to_bytes(error), StoreUnavailable)
    assert type(back) is row.error
    assert (back.message, back.field, back.facts) == ("what happened", "record.body", {"id": "resp_1"})


def test_the_longest_error_fits_into_trailers() -> None:
    error = StaleFence("漢" * 100_000, field="é" * 100_000, **dict.fromkeys(("id", "code", "limit"), "😀" * 100_000))
    status = to_status(error)
    told = sum(len(name) + len(value) * 4 / 3 + 32 for name, value in status.trailing_metadata or ())
    assert TRAILERS_BYTES_MAX * 0.75 < len(quote(status.details)) + told < TRAILERS_BYTES_MAX - 512


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (grpc.StatusCode.UNAVAILABLE, StoreUnavailable),
        (grpc.StatusCode.CANCELLED, StoreUnavailable),
        (grpc.StatusCode.DEADLINE_EXCEEDED, Timeout),
        (grpc.StatusCode.UNIMPLEMENTED, Unimplemented),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, TooLarge),
        (grpc.StatusCode.UNAUTHENTICATED, Unauthenticated),
        (grpc.StatusCode.PERMISSION_DENIED, PermissionDenied),
        (grpc.StatusCode.UNKNOWN, InternalError),
    ],
)
def test_errors_of_the_transport_are_named_by_their_code(code: grpc.StatusCode, expected: type[Exception]) -> None:
    error = from_rpc_error(AioRpcError(code, Metadata(), Metadata(), "why"), StoreUnavailable)
    assert type(error) is expected
    assert error.message == ("The store cannot be reached." if expected is StoreUnavailable else "why")


def test_why_a_service_cannot_be_reached_is_for_its_operators(caplog: pytest.LogCaptureFixture) -> None:
    failed = AioRpcError(
        grpc.StatusCode.UNAVAILABLE, Metadata(), Metadata(), "Failed to connect to ipv4:10.0.0.7:50051"
    )
    assert from_rpc_error(failed, TranslatorUnavailable).message == "The translator cannot be reached."
    assert "10.0.0.7" in caplog.text
