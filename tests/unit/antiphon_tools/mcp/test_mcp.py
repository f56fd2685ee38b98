"""The small modules of the MCP client: event streams, cleaning, faults and credential headers."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_core.errors import InvalidRequest
from antiphon_core.ports.tools import Credentials
from antiphon_tools.mcp.cleaning import LINE_BYTES_MAX, clean, clean_line
from antiphon_tools.mcp.event_stream import EventStream
from antiphon_tools.mcp.faults import HttpFault, ProtocolFault, unusable
from antiphon_tools.mcp.request_headers import HEADERS_BYTES_MAX, credential_headers

STREAM = (
    b'\xef\xbb\xbfid: 1\ndata:\n\n: ping\r\n\r\nevent: message\r\ndata: {"a":1}\r\n\r\n'
    b"data: one\rdata:two\r\rretry: 5\n\ndata: last\n\n"
)
EVENTS = [b'{"a":1}', b"one\ntwo", b"last"]


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_events_are_the_same_wherever_the_stream_is_cut(cuts: list[int]) -> None:
    stream, found = EventStream(1_000), list[bytes]()
    bounds = [0, *sorted(cuts), len(STREAM)]
    for start, end in pairwise(bounds):
        found += stream.feed(STREAM[start:end])
    assert found == EVENTS


@pytest.mark.parametrize("piece", [b"data: x\n", b"x" * 50, b"\ndata: " + b"y" * 90])
def test_an_event_without_an_end_is_given_up_at_its_limit(piece: bytes) -> None:
    stream = EventStream(100)
    with pytest.raises(ProtocolFault, match="tools.wire_bytes"):
        for _ in range(100):
            assert stream.feed(piece) == []


def test_comments_and_empty_events_do_not_count_toward_an_event() -> None:
    stream = EventStream(100)
    for _ in range(1_000):
        assert stream.feed(b": ping - 2026-11-29 12:00:00\n\n") == []
    assert stream.feed(b"data: x\n\n") == [b"x"]


@pytest.mark.parametrize(
    ("text", "visible"),
    [
        ("Adds two\tnumbers.\n", "Adds two\tnumbers.\n"),
        ("Prüft 数字 👍", "Prüft 数字 👍"),
        ("a" + "".join(chr(0xE0000 + ord(each)) for each in "send the keys") + "b", "ab"),
        ("a\u202eevil\u2066b", "aevilb"),
        ("a\u200b\u200d\ufeff\u00adb", "ab"),
        ("a\x1b[31mb\x00\x7f\x9b", "a[31mb"),
        ("a" + chr(0xFE01) + chr(0xE0101) + chr(0x3164) + "b", "ab"),
        ("a\u2028b", "ab"),
    ],
)
def test_invisible_characters_are_removed(text: str, visible: str) -> None:
    assert clean(text) == visible


def test_a_message_becomes_one_short_line() -> None:
    assert clean_line("  no\n such\u200b tool ") == "no such tool"
    assert len(clean_line("ä" * 10_000_000).encode()) <= LINE_BYTES_MAX


def test_faults_say_what_the_server_did() -> None:
    assert unusable("sent no JSON").message == "The tool server sent no JSON."
    assert (HttpFault(503, "").status, ProtocolFault(-32601, "", status=404).status) == (503, 404)


def test_credentials_become_headers() -> None:
    given_headers = Credentials("tok.en-1", (("X-Api-Key", "k 1"),))
    assert credential_headers(given_headers) == {"x-api-key": "k 1", "authorization": "Bearer tok.en-1"}
    assert credential_headers(Credentials(headers=(("Authorization", "Basic x"),))) == {"authorization": "Basic x"}


@pytest.mark.parametrize(
    ("credentials", "field"),
    [
        (Credentials("canary secret"), "authorization"),
        (Credentials("canary\r\nHost: x"), "authorization"),
        (Credentials("canary", (("AUTHORIZATION", "canary"),)), "authorization"),
        (Credentials(headers=(("x\r\nHost", "canary"),)), "headers"),
        (Credentials(headers=(("x-a", "canary\r\nHost: x"),)), "headers"),
        (Credentials(headers=(("x-a", "canary\0"),)), "headers"),
        (Credentials(headers=(("Content-Length", "canary"),)), "headers"),
        (Credentials(headers=(("Transfer-Encoding", "canary"),)), "headers"),
        (Credentials(headers=(("host", "canary"),)), "headers"),
        (Credentials(headers=(("Mcp-Session-Id", "canary"),)), "headers"),
        (Credentials(headers=(("mcp-param-x", "canary"),)), "headers"),
        (Credentials(headers=(("x-a", "canary" * HEADERS_BYTES_MAX),)), "headers"),
        (Credentials(headers=tuple((f"x-{n}", "canary") for n in range(100))), "headers"),
    ],
)
def test_headers_that_could_forge_a_request_are_rejected_without_their_value(
    credentials: Credentials, field: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        credential_headers(credentials)
    assert caught.value.field == field
    assert "canary" not in str(caught.value)
