from __future__ import annotations

import asyncio
import gzip
import logging
import random
import sys
import zlib
from pathlib import Path
from unittest import mock

import pytest
from yarl import URL

from antiphon_core.limits import BODY_BYTES_MAX
from antiphon_edge.http import http_server
from antiphon_edge.routes import bodies
from tests.support.api_keys import KeyFiles
from tests.support.edge import RunningEdge, running_edge
from tests.support.raw_http import exchange, head, post, read

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

BODY = b'{"model": "m", "input": "hi"}'
BOMBS = {
    "gzip": gzip.compress(b" " * (8 * BODY_BYTES_MAX)),
    "zstd": zstd.compress(b" " * (8 * BODY_BYTES_MAX), options={zstd.CompressionParameter.window_log: 20}),
}
# The body in one frame of raw data. Its header asks for a window of 16 MiB: RFC 8878, section 3.1.1.
HUGE_WINDOW = b"\x28\xb5\x2f\xfd\x00" + bytes([(24 - 10) << 3]) + (len(BODY) << 3 | 1).to_bytes(3, "little") + BODY
PATHS = (
    "/v1/responses",
    "/v1/responses/compact",
    "/v1/responses/input_tokens",
    "/v1/chat/completions",
    "/v1/conversations",
)


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        (b"gzip", gzip.compress(BODY)),
        (b"GZIP", gzip.compress(BODY)),
        (b"x-gzip", gzip.compress(BODY)),
        (b"deflate", zlib.compress(BODY)),
        (b"deflate", zlib.compress(BODY)[2:-4]),
        (b"zstd", zstd.compress(BODY)),
        (b"zstd", zstd.compress(BODY[:9]) + zstd.compress(BODY[9:])),
        (b"identity", BODY),
    ],
    ids=["gzip", "GZIP", "x-gzip", "deflate", "raw deflate", "zstd", "two zstd frames", "identity"],
)
async def test_a_body_may_be_compressed(edge: RunningEdge, encoding: bytes, body: bytes) -> None:
    answer = await exchange(edge.server.url, post(body, b"Content-Encoding: " + encoding))
    assert answer.status == 200
    assert len(edge.translator.turns) == 1


@pytest.mark.parametrize("encoding", [b"br", b"x-zstd", b"gzip, gzip", b"zstd, zstd", b"gzip, identity", b"snappy"])
async def test_unsupported_encoding_is_rejected_with_the_supported_ones(edge: RunningEdge, encoding: bytes) -> None:
    answer = await exchange(edge.server.url, post(BODY, b"Content-Encoding: " + encoding))
    assert (answer.version, answer.status, answer.error["code"]) == ("HTTP/1.1", 415, "unsupported_content_encoding")
    assert answer.headers["accept-encoding"] == "gzip, deflate, zstd"
    assert answer.headers["x-request-id"].startswith("req_")


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        (b"gzip", BODY),
        (b"deflate", BODY),
        (b"zstd", BODY),
        (b"gzip", gzip.compress(BODY) + b"canary"),
        (b"zstd", zstd.compress(BODY) + b"canary"),
        (b"gzip", gzip.compress(BODY)[:-1]),
        (b"zstd", zstd.compress(BODY)[:-1]),
        (b"zstd", HUGE_WINDOW),
    ],
    ids=["no gzip", "no deflate", "no zstd", "gzip+", "zstd+", "gzip cut", "zstd cut", "zstd with a huge window"],
)
async def test_body_that_does_not_match_its_encoding_is_rejected_on_every_route(
    edge: RunningEdge, caplog: pytest.LogCaptureFixture, path: str, encoding: bytes, body: bytes
) -> None:
    caplog.set_level(logging.DEBUG)
    answer = await exchange(edge.server.url, post(body, b"Content-Encoding: " + encoding, path=path.encode()))
    assert (answer.status, answer.error["code"]) == (400, "malformed_request")
    assert "'Content-Encoding'" in answer.error["message"]
    assert (answer.headers["connection"], answer.ended) == ("close", True)
    assert [record for record in caplog.records if record.levelno > logging.INFO] == []


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("encoding", BOMBS)
async def test_body_over_the_limit_when_decompressed_is_rejected(edge: RunningEdge, encoding: str, path: str) -> None:
    bomb = post(BOMBS[encoding], f"Content-Encoding: {encoding}".encode(), path=path.encode())
    answer = await exchange(edge.server.url, bomb)
    assert (answer.status, answer.error["code"]) == (413, "request_too_large")
    assert (answer.headers["connection"], answer.ended) == ("close", True)


async def test_compressed_body_without_a_key_is_not_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that sends its whole body first still gets the answer."""
    body = gzip.compress(random.Random(0).randbytes(2 * BODY_BYTES_MAX), compresslevel=1)
    decoder = mock.Mock()
    monkeypatch.setattr(bodies, "decoder_of", decoder)
    files = KeyFiles(tmp_path)
    files.make("acme")
    async with running_edge(**files.settings) as edge:
        answer = await exchange(edge.server.url, post(body, b"Content-Encoding: gzip"))
    assert (answer.status, decoder.called) == (401, False)


async def test_client_that_does_not_close_a_rejected_connection_logs_no_warning(
    edge: RunningEdge, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(http_server, "LINGER_S", 0)
    address = URL(edge.server.url)
    reader, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(head(b"POST /v1/responses", b"Content-Encoding: gzip", b"Content-Length: 999") + BODY)
    assert (await read(reader)).status == 400
    async with asyncio.timeout(30):
        while "the body of a request from ('127.0.0.1', " not in caplog.text:
            await asyncio.sleep(0.01)
    assert [record for record in caplog.records if record.levelno > logging.INFO] == []
    writer.close()


async def test_encoding_of_a_request_without_a_body_is_ignored(edge: RunningEdge) -> None:
    assert (await edge.ask("GET", "/v1/models", headers={"Content-Encoding": "snappy"})).status == 200


@pytest.mark.parametrize(
    "headers",
    [[b"Content-Encoding: gzip,"], [b"Content-Encoding: , gzip"], [b"Content-Encoding: gzip", b"Content-Encoding: "]],
    ids=["comma behind", "comma before", "empty header"],
)
async def test_an_encoding_in_a_list_with_an_empty_element_is_rejected(edge: RunningEdge, headers: list[bytes]) -> None:
    answer = await exchange(edge.server.url, post(gzip.compress(BODY), *headers))
    assert (answer.status, answer.error["code"]) == (415, "unsupported_content_encoding")


async def test_an_empty_encoding_is_none(edge: RunningEdge) -> None:
    assert (await exchange(edge.server.url, post(BODY, b"Content-Encoding: "))).status == 200
