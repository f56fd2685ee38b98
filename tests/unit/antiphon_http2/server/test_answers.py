from __future__ import annotations

import pytest

from antiphon_http2.client.responses import outcome
from antiphon_http2.server.answers import SUCCESS, Status, trailers
from antiphon_http2.statuses import INTERNAL


def test_success_is_one_field() -> None:
    assert trailers(SUCCESS) == [("grpc-status", "0")]


@pytest.mark.parametrize("message", ["", "plain", "100 % käse\n", "\x00\x7f", "a+b c", "😀" * 300])
@pytest.mark.parametrize("details", [b"", b"\x00", b"\xff" * 100])
def test_client_reads_the_status_that_was_sent(message: str, details: bytes) -> None:
    fields = {name.encode(): value.encode("ascii") for name, value in trailers(Status(INTERNAL, message, details))}
    error = outcome(fields, is_only_answer=False)
    assert error is not None
    assert (error.status, error.message, error.details) == (INTERNAL, message, details)
