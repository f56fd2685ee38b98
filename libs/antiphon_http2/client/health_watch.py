"""The watch of gRPC's health service: whether a server says that one of its services serves.

The messages are written and read by hand, since this package is without protobuf: a request is the field 1 with a name,
an answer the field 1 with a number (the health checking protocol of gRPC).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from antiphon_http2.client.client import GrpcStreams
from antiphon_http2.errors import GrpcError
from antiphon_http2.statuses import UNIMPLEMENTED

_WATCH = "/grpc.health.v1.Health/Watch"
_SERVING = b"\x08\x01"
_RETRY_S = 1.0


async def watch_health(streams: GrpcStreams, service: str, report: Callable[[bool], None]) -> None:
    """Calls `report` with each state of a service, while the connection takes calls. A server without a health service
    serves, as for gRPC's own clients. A name has at most 127 bytes."""
    name = service.encode()
    request = bytes((0x0A, len(name))) + name

    def receive(answers: Sequence[bytes]) -> None:
        report(answers[-1] == _SERVING)

    while streams.is_connected:
        try:
            call = await streams.start(_WATCH, request, receive)
            try:
                await call.wait_end()
            finally:
                call.cancel()
        except GrpcError as error:
            if error.status == UNIMPLEMENTED:
                report(True)
                return
        report(False)
        await asyncio.sleep(_RETRY_S)
