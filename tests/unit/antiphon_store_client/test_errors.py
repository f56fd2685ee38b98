from __future__ import annotations

from typing import Any

import grpc
import pytest

from antiphon_core.errors import TABLE, AntiphonError, InvalidRequest, SessionLocked
from antiphon_store_client.errors import Aborted, InvalidArgument, StoreError, Unavailable, store_error
from tests.support.grpc_statuses import to_grpc_status


class FailedCall(grpc.RpcError):
    """An error of gRPC, which is also the failed call."""

    def __init__(self, code: grpc.StatusCode, details: str | None, metadata: Any) -> None:
        self._code, self._details, self._metadata = code, details, metadata

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str | None:
        return self._details

    def trailing_metadata(self) -> Any:
        return self._metadata


def failed(error: AntiphonError) -> StoreError:
    status = to_grpc_status(error)
    return store_error(FailedCall(status.code, status.details, status.trailing_metadata))


def test_an_invalid_argument_error_names_its_field() -> None:
    error = failed(InvalidRequest("The 'id' is wrong.", field="id"))
    assert type(error) is InvalidArgument
    assert (error.code, error.reason, error.field) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST", "id")
    assert str(error) == "INVALID_REQUEST: The 'id' is wrong."
    assert error.retry_after_s is None


def test_a_locked_session_error_has_its_retry_delay() -> None:
    error = failed(SessionLocked("Locked.", session_id="order-17", retry_after_ms=1250))
    assert type(error) is Aborted
    assert (error.reason, error.retry_after_s, error.field) == ("SESSION_LOCKED", 1.25, None)
    assert error.facts["session_id"] == "order-17"


def test_an_unavailable_error_without_details_has_no_reason() -> None:
    error = store_error(FailedCall(grpc.StatusCode.UNAVAILABLE, None, None))
    assert type(error) is Unavailable
    assert (error.reason, str(error)) == ("", "UNAVAILABLE: UNAVAILABLE")


def test_an_error_with_an_unmapped_code_is_a_store_error() -> None:
    assert type(store_error(FailedCall(grpc.StatusCode.INTERNAL, "A bug.", ()))) is StoreError


@pytest.mark.parametrize(
    "code", sorted({row.grpc_status.name for row in TABLE} - {"INTERNAL", "UNIMPLEMENTED", "UNKNOWN"})
)
def test_every_code_of_the_store_has_a_class(code: str) -> None:
    assert grpc.StatusCode[code] in StoreError.by_code
