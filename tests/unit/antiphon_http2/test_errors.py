from __future__ import annotations

from antiphon_http2.errors import ConnectionLost, GrpcError


def test_error_says_its_status_by_name() -> None:
    assert str(GrpcError(3, "no such input")) == "INVALID_ARGUMENT: no such input"


def test_lost_connection_is_unavailable_and_may_have_been_processed() -> None:
    error = ConnectionLost("gone")
    assert (error.status, error.message, error.is_unprocessed) == (14, "gone", False)
    assert ConnectionLost("refused", is_unprocessed=True).is_unprocessed
