from __future__ import annotations

import pytest

from tests.support.edge import RunningEdge
from tests.support.raw_http import exchange, head, post

BODY = b'{"model": "m", "input": "canary"}'
CHUNKS = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
CHUNKED = b"Transfer-Encoding: chunked"


def addressed(target: bytes, host: bytes) -> bytes:
    return b"GET %s HTTP/1.1\r\nHost: %s\r\n\r\n" % (target, host)


REFUSED = [
    # name, request, a word of the error message
    ("a coding before chunked", head(b"POST /v1/responses", b"Transfer-Encoding: gzip, chunked") + CHUNKS, "chunked"),
    ("chunked after nothing", head(b"POST /v1/responses", b"Transfer-Encoding: ,chunked") + CHUNKS, "chunked"),
    ("a coding of identity", head(b"POST /v1/responses", b"Transfer-Encoding: identity, chunked") + CHUNKS, "chunked"),
    ("a tunnel", head(b"CONNECT canary:80"), "CONNECT"),
    *(
        (f"the version {version.decode()}", b"GET /v1/models%s\r\nHost: edge\r\n\r\n" % version, "neither HTTP/1.1")
        for version in (b"", b" HTTP/0.9", b" HTTP/2.0")
    ),
    ("a fragment", addressed(b"/v1/models#canary", b"edge"), "fragment"),
    ("a fragment behind a query", addressed(b"/v1/models?a=b#canary", b"edge"), "fragment"),
    ("another host than the header's", addressed(b"http://canary/v1/models", b"edge"), "Host"),
    ("another port than the header's", addressed(b"http://edge:81/v1/models", b"edge:80"), "Host"),
    ("a user before the host", addressed(b"http://canary@edge/v1/models", b"edge"), "Host"),
    ("another scheme", addressed(b"ftp://edge/v1/models", b"edge"), "Host"),
    ("two words as host", addressed(b"/v1/models", b"edge canary"), "Host"),
    ("a host with a path", addressed(b"/v1/models", b"edge/canary"), "Host"),
    ("a host with a user", addressed(b"/v1/models", b"canary@edge"), "Host"),
    ("two hosts in one", addressed(b"/v1/models", b"edge,canary"), "Host"),
    ("a URL as host", addressed(b"/v1/models", b"http://canary"), "Host"),
    ("a port that is none", addressed(b"/v1/models", b"edge:canary"), "Host"),
    ("half an address", addressed(b"/v1/models", b"[::1"), "Host"),
    ("a host that is no text", addressed(b"/v1/models", b"canary\xff"), "Host"),
]


@pytest.mark.parametrize(("request_", "named"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
async def test_ambiguous_request_is_rejected_and_ends_its_connection(
    edge: RunningEdge, request_: bytes, named: str
) -> None:
    answer = await exchange(edge.server.url, request_)
    assert (answer.status, answer.error["code"]) == (400, "malformed_request")
    assert named in answer.error["message"]
    assert "canary" not in answer.error["message"]
    assert answer.headers["x-request-id"].startswith("req_")
    assert (answer.headers["connection"], answer.ended) == ("close", True)
    assert edge.translator.turns == []


async def test_chunked_body_in_http_1_0_is_rejected(edge: RunningEdge) -> None:
    request = head(b"POST /v1/responses", CHUNKED, b"Connection: keep-alive") + CHUNKS
    answer = await exchange(edge.server.url, request.replace(b"HTTP/1.1", b"HTTP/1.0"))
    assert (answer.status, answer.error["code"]) == (400, "malformed_request")
    assert "connection" not in answer.headers  # HTTP/1.0 connections end without this header
    assert edge.translator.turns == []


@pytest.mark.parametrize(
    ("target", "host"),
    [
        (b"/v1/models", b""),
        (b"/v1/models", b"edge_1.prod.svc.cluster.local:8080"),
        (b"/v1/models", b"127.0.0.1:8080"),
        (b"/v1/models", b"[::1]:8080"),
        (b"/v1/models", b"[fe80::1%25eth0]"),
        (b"http://LocalHost:8080/v1/models?a=b", b"localhost:8080"),
        (b"http://localhost/v1/models", b"localhost"),
        (b"https://[::1]:80/v1/models", b"[::1]:80"),
    ],
)
async def test_unambiguous_request_is_answered(edge: RunningEdge, target: bytes, host: bytes) -> None:
    answer = await exchange(edge.server.url, addressed(target, host))
    assert (answer.status, answer.ended) == (200, False)


@pytest.mark.parametrize(
    ("request_", "is_last"),
    [
        (post(BODY), False),
        (head(b"POST /v1/responses", CHUNKED) + CHUNKS, True),
        (head(b"POST /v1/responses", b"Transfer-Encoding: Chunked ") + CHUNKS, True),
        (head(b"GET /v1/models", b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c"), True),
        (head(b"GET /v1/models", b"Connection: Upgrade", b"Upgrade: \xff"), True),
        (head(b"GET /v1/models", b"Connection: Upgrade", b"Upgrade: websocket"), True),
        (head(b"GET /v1/models", b"Upgrade: websocket"), False),
    ],
    ids=["plain", "chunks", "Chunks", "HTTP/2", "no text", "a WebSocket where there is none", "no upgrade"],
)
async def test_request_with_an_uncertain_end_is_answered_and_ends_its_connection(
    edge: RunningEdge, request_: bytes, is_last: bool
) -> None:
    answer = await exchange(edge.server.url, request_)
    assert (answer.status, answer.ended) == (200, is_last)
