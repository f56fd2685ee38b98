from __future__ import annotations

import asyncio

from yarl import URL

from tests.support.edge import RunningEdge


async def test_key_that_is_no_utf_8_is_rejected(edge: RunningEdge) -> None:
    lines = [b"POST /v1/conversations HTTP/1.1", b"Host: edge", b"Idempotency-Key: \xff", b"Connection: close"]
    address = URL(edge.server.url)
    reader, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(b"\r\n".join([*lines, b"Content-Length: 0", b"", b""]))
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b'"param":"Idempotency-Key"' in answer
