from __future__ import annotations

from collections import defaultdict
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

from antiphon_core.clock import ManualClock
from antiphon_core.errors import (
    TABLE,
    AntiphonError,
    InternalError,
    InvalidRequest,
    PermissionDenied,
    PreviousResponseNotReady,
    RequestRateExceeded,
    Row,
    ServiceFault,
    SessionLocked,
    StaleFence,
    StoreUnavailable,
    Timeout,
    TooLarge,
    TranslatorUnavailable,
    Unauthenticated,
    Unimplemented,
    revive,
)
from antiphon_core.rpc import status
from antiphon_core.rpc.status import from_bytes, from_grpc_error, to_bytes, to_status
from antiphon_core.telemetry.log_limit import LOG_INTERVAL_S, LogLimit
from antiphon_http2.errors import GrpcError
from antiphon_http2.server.answers import trailers
from antiphon_http2.statuses import UNAVAILABLE, UNKNOWN

TRAILERS_BYTES_MAX = 8_192  # gRPC drops a stream with more of them


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.reason)
def test_every_error_crosses_the_wire_as_itself(row: Row) -> None:
    error = row.error("what happened", field="record.body", id="resp_1")
    status = to_status(error)
    assert status.code == row.grpc_status
    back = from_grpc_error(GrpcError(status.code, status.message, details=status.details), StoreUnavailable)
    assert type(back) is row.error
    assert (back.message, back.field, back.facts) == ("what happened", "record.body", {"id": "resp_1"})


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.reason)
def test_every_error_keeps_its_class_and_facts_as_bytes(row: Row) -> None:
    error = row.error("what happened", field="record.body", id="resp_1")
    back = from_bytes(to_bytes(error), StoreUnavailable)
    assert type(back) is row.error
    assert (back.message, back.field, back.facts) == ("what happened", "record.body", {"id": "resp_1"})


@pytest.mark.parametrize("error_class", [StaleFence, InvalidRequest])
def test_the_longest_error_fits_into_trailers(error_class: type[AntiphonError]) -> None:
    facts = dict.fromkeys(("id", "code", "limit"), "😀" * 100_000)
    error = error_class("漢" * 100_000, field="é" * 100_000, **facts)
    status = to_status(error)
    size = sum(len(name) + len(value) + 32 for name, value in trailers(status))
    assert TRAILERS_BYTES_MAX * 0.75 < size < TRAILERS_BYTES_MAX - 512


def details_of(error: AntiphonError, kind: type[Message]) -> list[Any]:
    """The details of one type that a caller gets with the error."""
    found = []
    for packed in status_pb2.Status.FromString(to_bytes(error)).details:
        detail = kind()
        if packed.Unpack(detail):
            found.append(detail)
    return found


def test_an_invalid_field_becomes_a_bad_request_detail() -> None:
    (detail,) = details_of(InvalidRequest("'id' must be.", field="id"), error_details_pb2.BadRequest)
    assert [(each.field, each.description) for each in detail.field_violations] == [("id", "'id' must be.")]
    for error in (InvalidRequest("no message"), TooLarge("too large", field="record")):
        assert not details_of(error, error_details_pb2.BadRequest)


@pytest.mark.parametrize(
    ("error", "delay_ms"),
    [
        (SessionLocked.of("s"), 500),
        (StoreUnavailable("gone"), 1000),
        (PreviousResponseNotReady.of("resp_1", status="queued"), 1000),
        (RequestRateExceeded("slow down", retry_after_ms=1234), 1234),
    ],
)
def test_a_retryable_error_has_a_retry_delay_detail(error: AntiphonError, delay_ms: int) -> None:
    (detail,) = details_of(error, error_details_pb2.RetryInfo)
    assert detail.retry_delay.ToMilliseconds() == delay_ms


@pytest.mark.parametrize("error", [StaleFence.of("s", token=1), RequestRateExceeded("slow down")])
def test_an_error_without_a_retry_delay_has_no_retry_detail(error: AntiphonError) -> None:
    assert not details_of(error, error_details_pb2.RetryInfo)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (grpc.StatusCode.UNAVAILABLE, StoreUnavailable),
        (grpc.StatusCode.CANCELLED, StoreUnavailable),
        (grpc.StatusCode.DEADLINE_EXCEEDED, Timeout),
        (grpc.StatusCode.UNIMPLEMENTED, Unimplemented),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, ServiceFault),
        (grpc.StatusCode.INVALID_ARGUMENT, ServiceFault),
        (grpc.StatusCode.UNAUTHENTICATED, Unauthenticated),
        (grpc.StatusCode.PERMISSION_DENIED, PermissionDenied),
        (grpc.StatusCode.UNKNOWN, InternalError),
    ],
)
def test_errors_of_the_transport_are_named_by_their_code(code: grpc.StatusCode, expected: type[Exception]) -> None:
    error = from_grpc_error(GrpcError(code.value[0], "why"), StoreUnavailable)
    assert type(error) is expected
    assert error.message == ("The store cannot be reached." if expected is StoreUnavailable else "why")


@pytest.mark.parametrize("details", [b"\xff\xff", b"\x1a\x04\x12\x02\xff\xff"])
def test_details_that_cannot_be_read_leave_the_error_of_the_code(details: bytes) -> None:
    failed = GrpcError(UNKNOWN, "why", details=details)
    assert type(from_grpc_error(failed, StoreUnavailable)) is InternalError
    assert type(status.from_bytes(b"\xff\xff", StoreUnavailable)) is ServiceFault


def test_facts_that_no_error_has_are_left_out() -> None:
    error = revive("STALE_FENCE", "why", {"message": "other", "self": "me", "field": "id", "id": "resp_1"})
    assert (type(error), error.message, error.field, error.facts) == (StaleFence, "why", "id", {"id": "resp_1"})


def test_the_address_of_an_unreachable_service_is_logged_and_not_sent(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status, "_UNREACHABLE", defaultdict(LogLimit))
    failed = GrpcError(UNAVAILABLE, "Failed to connect to ipv4:10.0.0.7:50051")
    assert from_grpc_error(failed, TranslatorUnavailable).message == "The translator cannot be reached."
    assert "10.0.0.7" in caplog.text


def test_an_outage_is_logged_once_in_a_while_and_for_each_service(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    monkeypatch.setattr(status, "_UNREACHABLE", defaultdict(LogLimit))
    monkeypatch.setattr(status, "monotonic", clock.monotonic)
    failed = GrpcError(UNAVAILABLE, "why")
    for _ in range(100):
        from_grpc_error(failed, TranslatorUnavailable)
    from_grpc_error(failed, StoreUnavailable)
    clock.advance(LOG_INTERVAL_S)
    from_grpc_error(failed, TranslatorUnavailable)
    line = "the {} cannot be reached: why (failures since the last such line: {})"
    assert caplog.messages == [line.format(*each) for each in (("translator", 1), ("store", 1), ("translator", 100))]
