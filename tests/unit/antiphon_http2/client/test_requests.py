from __future__ import annotations

import pytest

from antiphon_http2.client.requests import Request, timeout_text


def request(*metadata: tuple[str, str], timeout_s: float | None = None) -> Request:
    return Request("host:1", "http", "/service/Method", b"", metadata, timeout_s)


def test_request_headers_follow_the_grpc_protocol() -> None:
    headers = request(("x-request-id", "abc"), timeout_s=1.5).headers
    assert headers[:4] == [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/service/Method"),
        (":authority", "host:1"),
    ]
    assert {("te", "trailers"), ("content-type", "application/grpc"), ("grpc-timeout", "1500m")} <= set(headers)
    assert headers[-1] == ("x-request-id", "abc")


def test_call_without_timeout_sends_none() -> None:
    assert "grpc-timeout" not in dict(request().headers)


@pytest.mark.parametrize("name", ["", "Upper", "with space", ":path", "grpc-status", "te", "content-type", "ü", "a\n"])
def test_names_that_metadata_cannot_have_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="metadata"):
        request((name, "value"))


@pytest.mark.parametrize("value", ["line\nbreak", "ü", "\x00"])
def test_values_that_are_not_ascii_are_refused(value: str) -> None:
    with pytest.raises(ValueError, match="ASCII"):
        request(("name", value))


@pytest.mark.parametrize(
    ("timeout_s", "text"), [(0, "1m"), (0.25, "250m"), (99_999, "99999000m"), (100_000, "100000S"), (1e12, "99999999S")]
)
def test_timeout_has_eight_digits_at_most(timeout_s: float, text: str) -> None:
    assert timeout_text(timeout_s) == text
