"""Reads the metrics of a model server over HTTP, without an HTTP client, whose import costs a tenth of the start."""

from __future__ import annotations

import asyncio

from antiphon_core.errors import EngineUnavailable
from antiphon_core.limits import ENGINE_METRICS_BYTES_MAX

_READ_BYTES = 65_536


async def fetch(host: str, port: int, *, timeout_s: float) -> str:
    """The text of http://host:port/metrics.

    Raises:
        EngineUnavailable: the server does not answer within `timeout_s`, with 200, or with less than
            ENGINE_METRICS_BYTES_MAX.
    """
    try:
        async with asyncio.timeout(timeout_s):
            answer = await _ask(host, port)
    except TimeoutError as error:
        raise EngineUnavailable(f"The metrics at {host}:{port} did not come within {timeout_s:g} s.") from error
    except OSError as error:
        raise EngineUnavailable(f"The metrics at {host}:{port} cannot be read: {error}.") from error
    head, _, body = answer.partition(b"\r\n\r\n")
    if head[:9] not in (b"HTTP/1.0 ", b"HTTP/1.1 ") or head[9:12] != b"200":
        raise EngineUnavailable(f"The server at {host}:{port} has no metrics.")
    return body.decode("utf-8", "replace")


async def _ask(host: str, port: int) -> bytes:
    """The whole answer to a GET of HTTP/1.0, whose end is that of the connection."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(f"GET /metrics HTTP/1.0\r\nHost: {host}\r\n\r\n".encode())
        answer = bytearray()
        while received := await reader.read(_READ_BYTES):
            answer += received
            if len(answer) > ENGINE_METRICS_BYTES_MAX:
                raise EngineUnavailable(
                    f"The metrics at {host}:{port} are longer than {ENGINE_METRICS_BYTES_MAX:,} bytes "
                    "(ENGINE_METRICS_BYTES_MAX)."
                )
        return bytes(answer)
    finally:
        writer.close()
