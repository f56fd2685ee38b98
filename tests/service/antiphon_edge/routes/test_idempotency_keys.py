from __future__ import annotations

import asyncio

from yarl import URL

from antiphon_core.jsons import Object
from tests.support.edge import RunningEdge


async def test_key_that_is_no_utf_8_is_rejected(edge: RunningEdge) -> None:
    lines = [b"POST /v1/conversations HTTP/1.1", b"Host: localhost", b"Idempotency-Key: \xff", b"Connection: close"]
    address = URL(edge.server.url)
    reader, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(b"\r\n".join([*lines, b"Content-Length: 0", b"", b""]))
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b'"param":"Idempotency-Key"' in answer


async def test_reused_key_is_rejected_with_the_name_of_the_header(edge: RunningEdge) -> None:
    headers = {"Idempotency-Key": "k"}
    requests: dict[str, tuple[Object, Object]] = {
        "/v1/responses": ({"model": "m", "input": "hi"}, {"model": "m", "input": "bye"}),
        "/v1/conversations": ({"metadata": {"a": "1"}}, {"metadata": {"a": "2"}}),
    }
    for path, (body, other) in requests.items():
        assert (await edge.ask("POST", path, body, headers=headers)).status == 200
        rejected = await edge.ask("POST", path, other, headers=headers)
        assert (rejected.status, rejected.error["param"]) == (409, "Idempotency-Key")
