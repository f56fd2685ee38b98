from __future__ import annotations

import grpc
import pytest

from antiphon_http2 import statuses
from antiphon_http2.statuses import ErrorCode, error_code_name, name_of, status_of_http, status_of_reset


def test_statuses_are_those_of_grpc() -> None:
    assert [name_of(code.value[0]) for code in grpc.StatusCode] == [code.name for code in grpc.StatusCode]
    assert len(grpc.StatusCode) - 1 == statuses.STATUS_MAX
    assert grpc.StatusCode.UNAVAILABLE.value[0] == statuses.UNAVAILABLE
    assert grpc.StatusCode.DEADLINE_EXCEEDED.value[0] == statuses.DEADLINE_EXCEEDED


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (ErrorCode.NO_ERROR, "INTERNAL"),
        (ErrorCode.REFUSED_STREAM, "UNAVAILABLE"),
        (ErrorCode.CANCEL, "CANCELLED"),
        (ErrorCode.ENHANCE_YOUR_CALM, "RESOURCE_EXHAUSTED"),
        (ErrorCode.INADEQUATE_SECURITY, "PERMISSION_DENIED"),
        (ErrorCode.HTTP_1_1_REQUIRED, "UNKNOWN"),
        (0xABC, "UNKNOWN"),
    ],
)
def test_reset_has_the_status_of_grpcs_table(code: int, status: str) -> None:
    assert name_of(status_of_reset(code)) == status


@pytest.mark.parametrize(
    ("http_status", "status"),
    [(400, "INTERNAL"), (401, "UNAUTHENTICATED"), (404, "UNIMPLEMENTED"), (503, "UNAVAILABLE"), (200, "UNKNOWN")],
)
def test_http_status_has_the_status_of_grpcs_table(http_status: int, status: str) -> None:
    assert name_of(status_of_http(http_status)) == status


def test_unknown_codes_are_named_by_their_numbers() -> None:
    assert error_code_name(ErrorCode.CANCEL) == "CANCEL"
    assert error_code_name(0xABC) == "0xabc"
    assert name_of(99) == "99"
