from __future__ import annotations

import asyncio
import errno
import gzip
import logging
import re

import pytest
from aiohttp import ClientConnectionResetError
from aiohttp.http_exceptions import BadHttpMessage, HttpProcessingError, LineTooLong, TransferEncodingError
from yarl import URL

from antiphon_core.limits import BODY_BYTES_MAX, HEADER_BYTES_MAX, HEADS_BYTES_MAX, URL_BYTES_MAX
from antiphon_core.ports.translator import Model
from antiphon_edge.http.http_server import HttpServer, rejection_of
from tests.support.edge import RunningEdge
from tests.support.raw_http import RawAnswer, exchange, head, post, read

BODY = b'{"model": "m", "input": "canary"}'
CHUNKED = (b"POST /v1/responses", b"Transfer-Encoding: chunked")
MALFORMED = "malformed_request"
LARGE = b"x" * (3 * BODY_BYTES_MAX)


def require(answer: RawAnswer, status: int, code: str) -> None:
    """Checks the error body and the common headers of an answer that ends its connection."""
    assert (answer.version, answer.status, answer.error["code"]) == ("HTTP/1.1", status, code), answer
    assert set(answer.error) == {"message", "type", "param", "code"}
    assert answer.error["type"] == "invalid_request_error"
    assert answer.headers["content-type"].startswith("application/json")
    assert re.fullmatch(r"req_[0-9a-f]{32}", answer.headers["x-request-id"])
    assert answer.headers["openai-version"] == "2020-10-01"
    assert int(answer.headers["openai-processing-ms"]) >= 0
    assert (answer.headers["connection"], answer.ended) == ("close", True)


UNREADABLE = [
    # name, request, status, code
    ("an unknown method", head(b"BREW /v1/responses?canary"), 400, MALFORMED),
    ("TLS", b"\x16\x03\x01\x02\x00\x01canary", 400, MALFORMED),
    ("another HTTP", b"GET /canary HTTP/3.0\r\nHost: localhost\r\n\r\n", 400, MALFORMED),
    ("no path", head(b"GET canary"), 400, MALFORMED),
    ("a character that no URL has", head(b"GET /v1/models?k=canary\x7f\x01"), 400, MALFORMED),
    ("a long URL", head(b"GET /v1/models?k=canary" + b"x" * URL_BYTES_MAX), 414, "url_too_long"),
    ("a large header", post(BODY, b"x-note: canary" + b"x" * HEADER_BYTES_MAX), 431, "header_too_large"),
    ("a header with a long name", post(BODY, b"x-canary" + b"x" * HEADER_BYTES_MAX + b": 1"), 431, "header_too_large"),
    ("too many headers", post(BODY, *[b"x-note: canary"] * 200), 431, "too_many_headers"),
    ("a character that no header has", post(BODY, b"Authorization: Bearer canary\x01"), 400, MALFORMED),
    ("two hosts", post(BODY, b"Host: canary"), 400, MALFORMED),
    ("no host", b"GET /v1/models?canary HTTP/1.1\r\n\r\n", 400, MALFORMED),
    ("a length that is none", head(b"POST /v1/responses", b"Content-Length: canary") + BODY, 400, MALFORMED),
    ("a chunk without its size", head(*CHUNKED) + BODY + b"\r\n0\r\n\r\n", 400, MALFORMED),
]


@pytest.mark.parametrize(
    ("request_", "status", "code"), [row[1:] for row in UNREADABLE], ids=[r[0] for r in UNREADABLE]
)
async def test_unreadable_request_is_rejected_and_its_content_is_not_repeated(
    edge: RunningEdge, caplog: pytest.LogCaptureFixture, request_: bytes, status: int, code: str
) -> None:
    caplog.set_level(logging.DEBUG)
    answer = await exchange(edge.server.url, request_)
    require(answer, status, code)
    (record,) = [record for record in caplog.records if "rejected" in record.getMessage()]
    said = f"a request from 127.0.0.1 is rejected with {status}: {answer.error['message']}"
    assert record.getMessage() == said
    assert "canary" not in caplog.text
    assert b"canary" not in answer.body
    assert edge.translator.turns == []


async def test_malformed_body_is_rejected_while_it_is_read(edge: RunningEdge, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    request = head(*CHUNKED, b"Expect: 100-continue")
    require(await exchange(edge.server.url, request, after_continue=BODY + b"\r\n0\r\n\r\n"), 400, MALFORMED)
    assert "canary" not in caplog.text
    assert [record for record in caplog.records if record.levelno > logging.INFO] == []


async def test_connection_reset_after_its_answer_logs_no_error(
    edge: RunningEdge, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel reports the reset when the server closes its sending side."""

    def write_eof(_transport: object) -> None:
        raise OSError(errno.ENOTCONN, "Transport endpoint is not connected")

    monkeypatch.setattr("asyncio.selector_events._SelectorSocketTransport.write_eof", write_eof)
    for said in (head(b"BREW /v1/responses"), post(BODY, b"Host: another")):
        address = URL(edge.http.url)
        reader, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(said)
        assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 400")
        writer.close()
        await writer.wait_closed()
    await edge.server.stop()
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_client_disconnect_logs_no_warning(edge: RunningEdge, caplog: pytest.LogCaptureFixture) -> None:
    """A handler that writes while the connection closes raises this error."""
    caplog.set_level(logging.INFO)

    async def models() -> list[Model]:
        raise ClientConnectionResetError("Cannot write to closing transport")

    edge.translator.models = models  # type: ignore[method-assign]
    await edge.ask("GET", "/v1/models")
    assert "disconnected before its answer was complete" in caplog.text
    assert [record for record in caplog.records if record.levelno > logging.INFO] == []


async def test_malformed_body_behind_a_running_request_is_rejected_in_its_turn(edge: RunningEdge) -> None:
    """The request in front of the malformed one is complete, and is answered."""
    asked, go_on = edge.hold_models()
    address = URL(edge.server.url)
    reader, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(head(b"GET /v1/models"))
    await asked.wait()
    (connection,) = edge.server._http.connections
    async with asyncio.timeout(30):
        for piece in (head(*CHUNKED), BODY + b"\r\n0\r\n\r\n"):
            waiting = len(connection._messages)
            writer.write(piece)
            while len(connection._messages) == waiting:
                await asyncio.sleep(0)
        go_on.set()
        assert [(await read(reader)).status for _ in range(2)] == [200, 400]
    writer.close()


@pytest.mark.parametrize(
    ("request_", "status", "code"),
    [
        (head(b"POST /v1/responses", b"Content-Length: nine") + LARGE, 400, MALFORMED),
        (post(LARGE[:BODY_BYTES_MAX], b"Content-Encoding: gzip"), 400, MALFORMED),
        (post(gzip.compress(LARGE, compresslevel=0), b"Content-Encoding: gzip"), 413, "request_too_large"),
    ],
    ids=["no request", "no body", "too large a body"],
)
async def test_client_that_sends_everything_before_it_reads_gets_the_rejection(
    edge: RunningEdge, request_: bytes, status: int, code: str
) -> None:
    require(await exchange(edge.server.url, request_), status, code)


async def test_a_large_header_that_clients_do_send_is_read(edge: RunningEdge) -> None:
    request = post(b'{"model": "m", "input": "hi"}', b"x-codex-turn-metadata: " + b"x" * (HEADER_BYTES_MAX - 100))
    assert (await exchange(edge.server.url, request)).status == 200


async def test_body_is_asked_for_with_100_continue(edge: RunningEdge) -> None:
    body = b'{"model": "m", "input": "hi"}'
    request = head(b"POST /v1/responses", b"Content-Length: %d" % len(body), b"Expect: 100-continue")
    assert (await exchange(edge.server.url, request, after_continue=body)).status == 200


async def test_a_head_that_begins_in_the_read_of_a_request_is_counted_until_it_is_complete(edge: RunningEdge) -> None:
    server: HttpServer = edge.server._http
    address = URL(edge.server.url)
    reader, writer = await asyncio.open_connection(address.host, address.port)
    whole, begun = head(b"GET /v1/version"), b"GET /v1/ver"
    writer.write(whole + begun)
    assert (await read(reader)).status == 200
    assert server._heads.held_bytes == len(begun)
    writer.write(whole.removeprefix(begun))
    assert (await read(reader)).status == 200
    assert server._heads.held_bytes == 0
    writer.close()


async def test_a_head_over_the_limit_in_the_read_of_a_request_ends_the_connection(edge: RunningEdge) -> None:
    """The client could take a rejection for the answer to the request before."""
    server: HttpServer = edge.server._http
    assert server._heads.take("127.0.0.1", HEADS_BYTES_MAX // 8) is None
    address = URL(edge.server.url)
    reader, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(head(b"GET /v1/version") + b"GET /v1/ver")
    async with asyncio.timeout(30):
        assert await reader.read() == b""
    writer.close()


async def test_unknown_expectation_is_rejected(edge: RunningEdge) -> None:
    answer = await exchange(edge.server.url, post(BODY, b"Expect: miracles"))
    assert (answer.version, answer.status, answer.error["code"]) == ("HTTP/1.1", 417, "expectation_failed")
    assert answer.headers["x-request-id"].startswith("req_")
    assert answer.headers["content-type"].startswith("application/json")


@pytest.mark.parametrize("path", [b"/v1/responses", b"/nowhere"])
@pytest.mark.parametrize("expected", [b"\xff", b"100-continue\xff", b"100-continue, canary"])
async def test_expectation_with_invalid_bytes_is_rejected(
    edge: RunningEdge, caplog: pytest.LogCaptureFixture, path: bytes, expected: bytes
) -> None:
    require(await exchange(edge.server.url, post(BODY, b"Expect: " + expected, path=path)), 417, "expectation_failed")
    assert [record for record in caplog.records if record.levelno > logging.INFO] == []


async def test_expectation_in_http_1_0_is_ignored(edge: RunningEdge) -> None:
    """RFC 9110 demands it: HTTP/1.0 has no `Expect`."""
    request = post(b'{"model": "m", "input": "hi"}', b"Expect: miracles").replace(b"HTTP/1.1", b"HTTP/1.0")
    assert (await exchange(edge.server.url, request)).status == 200


async def statuses_of(edge: RunningEdge, first: bytes, then: bytes) -> list[int]:
    """Sends `first`, and `then` after its answer, on one connection. Returns the statuses of the answers."""
    address = URL(edge.server.url)
    reader, writer = await asyncio.open_connection(address.host, address.port)
    statuses = []
    async with asyncio.timeout(10):
        for piece in (first, then):
            writer.write(piece)
            try:
                statuses.append((await read(reader)).status)
            except (asyncio.IncompleteReadError, ConnectionError):
                break
    writer.close()
    return statuses


async def test_a_trailer_of_one_request_is_no_header_of_the_next(edge: RunningEdge) -> None:
    """aiohttp's parser keeps the last trailer for the next request, which a proxy may send for another client."""
    body = b'{"model": "m", "input": "hi"}'
    chunks = b"%x\r\n%s\r\n0\r\nIdempotency-Key: mine\r\n\r\n" % (len(body), body)
    assert await statuses_of(edge, head(*CHUNKED) + chunks, post(body)) == [200]
    assert len(edge.translator.turns) == 1


async def test_data_behind_an_ignored_upgrade_is_dropped(edge: RunningEdge) -> None:
    """aiohttp drops the data of the same read, and would take later data for the next request."""
    upgrade = head(b"GET /v1/models", b"Connection: Upgrade", b"Upgrade: h2c")
    smuggled = post(b'{"model": "m", "input": "hi"}')
    outer = head(b"POST /v1/responses", b"Content-Length: %d" % len(smuggled))
    assert await statuses_of(edge, upgrade + outer, smuggled) == [200]
    assert edge.translator.turns == []


async def test_data_behind_connect_is_not_read_as_a_request(edge: RunningEdge) -> None:
    smuggled = post(b'{"model": "m", "input": "hi"}')
    request = head(b"CONNECT edge:80", b"Content-Length: %d" % len(smuggled)) + smuggled
    require(await exchange(edge.server.url, request), 400, MALFORMED)
    assert edge.translator.turns == []


async def test_connection_stays_open_after_a_rejected_request_that_was_read(edge: RunningEdge) -> None:
    first = await exchange(edge.server.url, post(b"no JSON"))
    assert (first.status, first.ended) == (400, False)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (LineTooLong(b"canary", URL_BYTES_MAX), 414),
        (LineTooLong(b"canary", HEADER_BYTES_MAX), 431),
        (TransferEncodingError("canary"), 400),
        (BadHttpMessage("canary"), 400),
    ],
)
def test_rejection_does_not_repeat_the_parsers_message(error: HttpProcessingError, status: int) -> None:
    why = rejection_of(error)
    assert why.status == status
    assert "canary" not in why.message
