"""Starts Phoenix, unmodified, on a gRPC server with two differences. This module runs in Phoenix's own environment.

- Its port is on loopback: Phoenix has a setting for the address of its HTTP port only.
- The bytes of every call are also appended to the file RECORDED, a line of base64 each: Phoenix keeps neither the
  services nor the kinds of spans.
"""

from __future__ import annotations

import base64
import os
import runpy
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc.aio

RECORDED = Path(os.environ["RECORDED"])


class Recorder(grpc.aio.ServerInterceptor):
    """Records the bytes of each call before they are parsed."""

    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Any]], handler_call_details: Any) -> Any:
        handler = await continuation(handler_call_details)

        def read(message: bytes) -> Any:
            with RECORDED.open("ab") as file:
                file.write(base64.b64encode(message) + b"\n")
            return handler.request_deserializer(message)

        return handler and handler._replace(request_deserializer=read)


class LoopbackServer:
    """A gRPC server that always listens on 127.0.0.1."""

    def __init__(self, server: grpc.aio.Server) -> None:
        self._server = server

    def add_insecure_port(self, address: str) -> int:
        return self._server.add_insecure_port("127.0.0.1:" + address.rpartition(":")[2])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._server, name)


def serve(new_server: Callable[..., grpc.aio.Server]) -> None:
    """Runs Phoenix's command with gRPC servers that `new_server` makes."""

    def recorded(**options: Any) -> LoopbackServer:
        interceptors = [*options.pop("interceptors", ()), Recorder()]
        return LoopbackServer(new_server(interceptors=interceptors, **options))

    vars(grpc.aio)["server"] = recorded
    runpy.run_module("phoenix.server.main", run_name="__main__")


if __name__ == "__main__":
    serve(grpc.aio.server)
