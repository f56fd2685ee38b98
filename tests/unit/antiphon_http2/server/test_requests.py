from __future__ import annotations

import pytest

from antiphon_http2.errors import GrpcError
from antiphon_http2.server.requests import RequestHead, read_head
from antiphon_http2.statuses import INVALID_ARGUMENT

CALL = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/a.B/C"), (b"content-type", b"application/grpc")]


def head(*fields: tuple[bytes, bytes]) -> RequestHead:
    return read_head([*CALL, *fields])


def test_head_has_path_and_metadata_without_what_is_grpcs() -> None:
    read = head((b"te", b"trailers"), (b"grpc-encoding", b"gzip"), (b"user-agent", b"me"), (b"a", b"1"), (b"a", b"2"))
    assert (read.path, read.metadata) == ("/a.B/C", (("user-agent", "me"), ("a", "1"), ("a", "2")))
    assert read.timeout_s is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"AP8s", [b"\x00\xff,"]),
        (b"YQ", [b"a"]),
        (b"YQ==", [b"a"]),
        (b"YQ, Yg==", [b"a", b"b"]),
        (b"", [b""]),
    ],
)
def test_binary_metadata_is_decoded_with_or_without_padding_and_joined_values(
    value: bytes, expected: list[bytes]
) -> None:
    assert head((b"x-bin", value)).metadata == tuple(("x-bin", each) for each in expected)


@pytest.mark.parametrize(("value", "expected"), [("ü".encode(), "ü"), (b"\xff", b"\xff")])
def test_text_that_is_not_utf8_stays_bytes(value: bytes, expected: str | bytes) -> None:
    assert head((b"x", value)).metadata == (("x", expected),)


@pytest.mark.parametrize(
    ("text", "timeout_s"),
    [(b"5S", 5.0), (b"250m", 0.25), (b"1H", 3_600.0), (b"2M", 120.0), (b"99999999u", 99.999999), (b"0n", 0.0)],
)
def test_timeout_is_read_in_every_unit(text: bytes, timeout_s: float) -> None:
    read = head((b"grpc-timeout", text)).timeout_s
    assert read == pytest.approx(timeout_s)


@pytest.mark.parametrize("text", [b"5", b"S", b"123456789S", b"-1S", b"1.5S", b"5s", b"\xd9\xa1S"])
def test_malformed_timeout_names_its_header(text: bytes) -> None:
    with pytest.raises(GrpcError, match="'grpc-timeout'") as caught:
        head((b"grpc-timeout", text))
    assert caught.value.status == INVALID_ARGUMENT
