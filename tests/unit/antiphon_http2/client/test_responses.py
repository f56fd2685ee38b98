from __future__ import annotations

import pytest

from antiphon_http2.client.responses import error_in_headers, fields_of, is_informational, outcome
from antiphon_http2.errors import GrpcError


def refused(**fields: bytes) -> GrpcError | None:
    return error_in_headers(
        {name.replace("_", "-").encode(): value for name, value in fields.items()} | {b":status": b"200"}
    )


def ended(**fields: bytes) -> GrpcError | None:
    return outcome({name.replace("_", "-").encode(): value for name, value in fields.items()}, is_only_answer=False)


@pytest.mark.parametrize("content_type", [b"application/grpc", b"application/grpc+proto"])
def test_grpc_content_types_are_accepted(content_type: bytes) -> None:
    assert refused(content_type=content_type) is None


@pytest.mark.parametrize(("status", "expected"), [(b"503", 14), (b"404", 12), (b"500", 2), (b"2oo", 2), (b"", 2)])
def test_http_status_stands_for_a_grpc_status(status: bytes, expected: int) -> None:
    fields = {b":status": status, b"content-type": b"text/html"}
    for error in (error_in_headers(fields), outcome(fields, is_only_answer=True)):
        assert error is not None
        assert error.status == expected
        assert "text/html" in error.message


def test_other_content_type_is_refused() -> None:
    error = refused(content_type=b"text/html")
    assert error is not None
    assert error.status == 2


def test_grpc_status_wins_over_http_status() -> None:
    error = error_in_headers({b":status": b"503", b"grpc-status": b"8", b"grpc-message": b"full"})
    assert error is not None
    assert (error.status, error.message) == (8, "full")


def test_grpc_status_zero_is_no_error() -> None:
    assert ended(grpc_status=b"0") is None
    assert outcome({b"grpc-status": b"0", b":status": b"200"}, is_only_answer=True) is None


def test_message_is_percent_decoded_and_never_fails() -> None:
    error = ended(grpc_status=b"3", grpc_message=b"caf%C3%A9 100%25 %zz \xff")
    assert error is not None
    assert (error.status, error.message) == (3, "café 100% %zz �")


def test_missing_status_is_unknown() -> None:
    error = ended()
    assert error is not None
    assert error.status == 2


@pytest.mark.parametrize("status", [b"17", b"-1", b"", b"x", b"999999999999999999999", "²".encode()])
def test_invalid_grpc_status_is_unknown(status: bytes) -> None:
    error = ended(grpc_status=status)
    assert error is not None
    assert error.status == 2


@pytest.mark.parametrize(("text", "details"), [(b"AQID", b"\1\2\3"), (b"AQI", b"\1\2"), (b"A", b""), (b"", b"")])
def test_details_are_base64_with_or_without_padding(text: bytes, details: bytes) -> None:
    error = ended(grpc_status=b"3", grpc_status_details_bin=text)
    assert error is not None
    assert error.details == details


def test_first_of_several_header_values_counts() -> None:
    assert fields_of([(b"a", b"1"), (b"b", b"2"), (b"a", b"3")]) == {b"a": b"1", b"b": b"2"}


@pytest.mark.parametrize(("status", "expected"), [(b"103", True), (b"200", False), (b"1", False), (b"", False)])
def test_only_1xx_statuses_are_informational(status: bytes, expected: bool) -> None:
    assert is_informational({b":status": status}) is expected
