"""Malformed HTTP requests: damaged requests to every route, and bytes that never were a request.

The seed determines everything. A request has no address: its bytes are sent over a socket.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any
from urllib.parse import quote

from antiphon_core.jsons import dumps
from antiphon_core.limits import BODY_BYTES_MAX
from antiphon_edge.operations.table import OPERATIONS, Operation
from tests.support.malformed import mutations
from tests.support.malformed.http_bodies import BODIES

Headers = list[tuple[bytes, bytes]]
_LARGE = gzip.compress(b"a" * (BODY_BYTES_MAX + 1))
Damage = Callable[[Random, "Request"], "Request"]


@dataclass(frozen=True, slots=True)
class Request:
    """A request in separate parts, any of which can be damaged."""

    method: bytes
    target: bytes
    headers: Headers
    body: bytes = b""
    version: bytes = b"HTTP/1.1"
    raw: bytes | None = None
    """The bytes of the whole request, if set instead of its parts."""
    hangs_up: bool = False
    """Whether the client disconnects as soon as the request is sent."""

    @property
    def data(self) -> bytes:
        if self.raw is not None:
            return self.raw
        head = b" ".join((self.method, self.target, self.version))
        return b"\r\n".join((head, *(name + b": " + value for name, value in self.headers), b"", self.body))

    def but(self, **parts: Any) -> Request:
        """Returns this request with other parts. An existing Content-Length is updated."""
        if "body" in parts and "headers" not in parts:
            parts["headers"] = _with_length(self.headers, parts["body"])
        return replace(self, **parts)


def malformed_requests(seed: int, ids: Mapping[str, Sequence[str]]) -> Iterator[Request]:
    """Yields requests for ever, all routes in turn. `ids` are existing ids, by the path segment before them."""
    random = Random(seed)
    while True:
        for operation in OPERATIONS:
            request = _real(random, operation, ids)
            if operation.body is not None and random.random() < 0.7:
                body = random.choice(BODIES[operation.body](ids))
                request = request.but(body=mutations.damaged_json(random, body))
            for damage in random.sample(DAMAGES, random.choice((0, 1, 1, 2)) if request.body else 1):
                if request.raw is None:
                    request = damage(random, request)
            yield request


def _real(random: Random, operation: Operation, ids: Mapping[str, Sequence[str]]) -> Request:
    """Returns a valid request to a route."""
    words = operation.path.strip("/").split("/")
    known = ids.get(words[1] if len(words) > 1 else "", ("x",))
    path = operation.path.replace("{id}", quote(random.choice(known))).replace("{item_id}", "msg_1")
    body = b""
    headers: Headers = [(b"Host", b"localhost"), (b"Connection", b"close")]
    if operation.body is not None:
        body = dumps(random.choice(BODIES[operation.body](ids)))
        headers += [(b"Content-Type", b"application/json"), (b"Content-Length", b"%d" % len(body))]
    return Request(operation.method.encode(), path.encode(), headers, body)


def _with_length(headers: Headers, body: bytes) -> Headers:
    others = [(name, value) for name, value in headers if name != b"Content-Length"]
    return [*others, (b"Content-Length", b"%d" % len(body))]


# ---- Damage ----


def _odd_method(random: Random, request: Request) -> Request:
    methods = (b"get", b"PUT", b"PATCH", b"HEAD", b"OPTIONS", b"TRACE", b"CONNECT", b"G\x00T", b"", b"POST" * 50)
    return request.but(method=random.choice(methods))


def _odd_target(random: Random, request: Request) -> Request:
    target = request.target
    odd = (
        b"/" + b"a" * 9_000,
        b"*",
        b"http://elsewhere" + target,
        b"//" + target,
        target + b"/../..",
        target.replace(b"/v1", b"/V1"),
        target + b"%00",
        target + b"%ff%fe",
        target + b"%2e%2e%2f",
        target + b"\xff",
        target + b" x",
        target + b"/",
        b"/v1/responses/" + mutations.flipped(random, b"resp_" + b"0" * 48).replace(b"\n", b""),
        b"/console/" + quote(random.choice(("..", "../app.js", "%2e%2e", "\x00"))).encode(),
    )
    return request.but(target=random.choice(odd))


def _odd_query(random: Random, request: Request) -> Request:
    text = "limit order after cursor stream starting_after include include[] from_root session conversation x"
    names = text.split()
    values = ("", "0", "-1", "1e9", "9" * 40, "true", "TRUE", "%00", "%ff", "asc", "a" * 2_000, "[]", "%F0%9F%98%80")
    pairs = "&".join(f"{random.choice(names)}={random.choice(values)}" for _ in range(random.randrange(1, 5)))
    return request.but(target=request.target + random.choice((b"?", b"?&", b"?=&")) + pairs.encode())


def _odd_header(random: Random, request: Request) -> Request:
    headers = (
        (b"Content-Type", random.choice((b"text/plain", b"application/json; charset=utf-16", b";;", b""))),
        (b"Authorization", random.choice((b"", b"Bearer", b"Bearer \xff", b"Basic Og==", b"Bearer " + b"a" * 4_000))),
        (b"Idempotency-Key", random.choice((b"", b"k", b"\xff", b"k" * 300, b'"'))),
        (b"X-Session-Id", random.choice((b"", b"s", b"../s", b"\xe2\x80\xae", b"s" * 200, b"conv_1"))),
        (b"X-Request-Id", random.choice((b"", b"\x01", b"r" * 600, b"{}"))),
        (b"X-Tenant-Id", random.choice((b"other", b"antiphon.dispatch", b"\xff", b""))),
        (b"traceparent", random.choice((b"00-0-0-0", b"\xff", b"00-" + b"f" * 32 + b"-" + b"f" * 16 + b"-zz"))),
        (b"Accept", random.choice((b"text/event-stream", b"image/*;q=x", b""))),
        (b"Accept-Encoding", random.choice((b"gzip;q=2", b"br", b"*;q=0"))),
        (b"Expect", random.choice((b"100-continue", b"a miracle", b""))),
        (b"Range", b"bytes=5-1"),
        (b"If-Modified-Since", random.choice((b"yesterday", b"Mon, 99 Foo 0000 00:00:00 GMT"))),
        (b"Cookie", b"a=\x7f; ;=;"),
        (b"Origin", random.choice((b"null", b"http://evil", b"\xff"))),
        (b"X" * 300, b"y" * 300),
        (b"X-Large", b"y" * random.choice((9_000, 70_000))),
    )
    return request.but(headers=[*request.headers, random.choice(headers)])


def _broken_head(random: Random, request: Request) -> Request:
    lines = (
        (b"No colon", b""),
        (b" Folded", b"x"),
        (b"Sp ace", b"x"),
        (b"Nul", b"a\x00b"),
        (b"Cr", b"a\rb"),
        (b"Host", b"another"),
        (b"\xff\xfe", b"x"),
        (b"", b"x"),
        (b"X", b"a\r\n b"),
    )
    at = random.randrange(len(request.headers) + 1)
    headers = [*request.headers[:at], random.choice(lines), *request.headers[at:]]
    return request.but(headers=headers)


def _odd_version(random: Random, request: Request) -> Request:
    return request.but(
        version=random.choice((b"HTTP/1.0", b"HTTP/2.0", b"HTTP/9.9", b"HTTP/1.1.1", b"ICY", b"", b"\xff"))
    )


def _odd_length(random: Random, request: Request) -> Request:
    """Returns a request with lengths that contradict the body or each other."""
    lengths = (b"-1", b"+5", b"1e3", b"0x10", b"", b"9" * 30, b"%d" % (len(request.body) // 2), b"5, 5")
    others = [pair for pair in request.headers if pair[0] != b"Content-Length"]
    odd = (b"Content-Length", random.choice(lengths))
    also = random.choice(([], [odd], [(b"Content-Length", b"%d" % len(request.body))]))
    return request.but(headers=[*others, odd, *also])


def _odd_chunks(random: Random, request: Request) -> Request:
    body = request.body or b"{}"
    chunks = (
        b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body),
        b"%x\r\n%s\r\n0\r\nX: y\r\n\r\n" % (len(body), body),
        b"zz\r\n%s\r\n0\r\n\r\n" % body,
        b"-1\r\n%s\r\n0\r\n\r\n" % body,
        b"%x;%s\r\n%s\r\n0\r\n\r\n" % (len(body), b"e" * 5_000, body),
        b"ffffffffffffffffff\r\n" + body,
        b"5\r\n" + body + b"\r\n0\r\n\r\n",
    )
    others = [pair for pair in request.headers if pair[0] != b"Content-Length" or random.random() < 0.2]
    coding = random.choice((b"chunked", b"chunked", b"chunked, chunked", b"gzip, chunked", b"identity", b"\xff"))
    return request.but(headers=[*others, (b"Transfer-Encoding", coding)], body=random.choice(chunks))


def _odd_encoding(random: Random, request: Request) -> Request:
    body = request.body or b"{}"
    name, packed = random.choice(
        (
            (b"gzip", gzip.compress(body)),
            (b"gzip", gzip.compress(body)[:-6]),
            (b"gzip", _LARGE),
            (b"gzip", mutations.flipped(random, gzip.compress(body))),
            (b"gzip", body),
            (b"deflate", zlib.compress(body)),
            (b"deflate", b"\x00"),
            (b"br", body),
            (b"zstd", b"\x28\xb5\x2f\xfd" + body),
            (b"gzip, gzip", gzip.compress(gzip.compress(body))),
            (b"\xff", body),
        )
    )
    made = request.but(body=packed)
    return made.but(headers=[*made.headers, (b"Content-Encoding", name)])


def _odd_body(random: Random, request: Request) -> Request:
    bodies = (b"", b"null", b"[]", b'"x"', b"0", b"\xef\xbb\xbf{}", b"{" * 3_000, b"\x00" * 50, random.randbytes(200))
    return request.but(body=random.choice(bodies))


def _cut(random: Random, request: Request) -> Request:
    """Returns an incomplete request whose client disconnects."""
    return Request(b"", b"", [], raw=mutations.truncated(random, request.data), hangs_up=True)


def _hung_up(_random: Random, request: Request) -> Request:
    return request.but(hangs_up=True)


def _upgrade(random: Random, request: Request) -> Request:
    """Returns a WebSocket handshake with mistakes, and invalid frames after it."""
    key = random.choice((b"dGhlIHNhbXBsZSBub25jZQ==", b"dGhlIHNhbXBsZSBub25jZQ==", b"x", b"\xff"))
    headers = [
        (b"Host", b"localhost"),
        (b"Upgrade", random.choice((b"websocket", b"websocket", b"h2c", b"WEBSOCKET, x"))),
        (b"Connection", random.choice((b"Upgrade", b"Upgrade", b"close"))),
        (b"Sec-WebSocket-Key", key),
        (b"Sec-WebSocket-Version", random.choice((b"13", b"13", b"8", b"\xff"))),
        (b"Sec-WebSocket-Extensions", random.choice((b"permessage-deflate", b"permessage-deflate; x=\x01", b""))),
    ]
    target = random.choice((b"/v1/responses", b"/v1/responses", request.target))
    frames = b"".join(_frame(random, request) for _ in range(random.randrange(1, 4)))
    return Request(b"GET", target, headers, frames + b"\x88\x80\x00\x00\x00\x00")


def _frame(random: Random, request: Request) -> bytes:
    event = b'{"type":"response.create",' + request.body[1:] if request.body.startswith(b"{") else request.body
    event = random.choice((event, event, b"{}", b'{"type":1}', b"[]", b"\xff", random.randbytes(30)))[:60_000]
    first = random.choice((0x81, 0x81, 0x81, 0x82, 0x80, 0x01, 0x89, 0x8F, 0xC1, random.randrange(256)))
    length = bytes([0x80 | len(event)]) if len(event) < 126 else b"\xfe" + len(event).to_bytes(2, "big")
    return bytes([first]) + length + b"\x00" * 4 + event


def _no_http(random: Random, _request: Request) -> Request:
    raw = random.choice(
        (
            random.randbytes(random.randrange(1, 400)) + b"\r\n\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + random.randbytes(100) + b"\r\n\r\n",
            b"GET /v1/models\r\n\r\n",
            b"\r\n" * 20 + b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
            b"GET /v1/models HTTP/1.1\r\n\r\n",
            b"GET /v1/models HTTP/1.1\nHost: localhost\nConnection: close\n\n",
            b"GET /v1/models HTTP/1.1\r\n" + b"X: y\r\n" * 2_000 + b"\r\n",
            b"GET http:// HTTP/1.1\r\nHost: localhost\r\n\r\n",
            b"GET http://[::1 HTTP/1.1\r\nHost: [::\r\n\r\n",
            b"GET /v1/models HTTP/1.1\r\nHost: " + b"\xff" * 50 + b"\r\n\r\n",
        )
    )
    return Request(b"", b"", [], raw=raw)


DAMAGES: Sequence[Damage] = (
    _odd_method,
    _odd_target,
    _odd_query,
    _odd_query,
    _odd_header,
    _odd_header,
    _broken_head,
    _odd_version,
    _odd_length,
    _odd_chunks,
    _odd_encoding,
    _odd_body,
    _cut,
    _hung_up,
    _upgrade,
    _no_http,
)
