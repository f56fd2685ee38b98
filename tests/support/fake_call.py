"""A call of the gRPC server, as a handler sees it, without a connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from antiphon_http2.errors import GrpcError
from antiphon_http2.server.answers import SUCCESS, Status
from antiphon_http2.server.call import ServerCall
from antiphon_http2.server.requests import Metadata


class FakeCall:
    """A call with `requests`, whose answers go to `sent` and whose end is `status`. Unless it `reads`, answers wait for
    ever. An error among the requests is raised in its turn."""

    peer = "ipv4:127.0.0.1:4711"

    def __init__(
        self,
        *requests: bytes | GrpcError,
        metadata: Metadata = (),
        certificate: Mapping[str, Any] | None = None,
        reads: bool = True,
    ) -> None:
        self.metadata = metadata
        self.certificate: Mapping[str, Any] = certificate or {}
        self.sent: list[bytes] = []
        self.status: Status | None = None
        self.arrived: asyncio.Event | None = None  # of the rest of a request; it has arrived if this is None
        self._requests: Sequence[bytes | GrpcError] = requests
        self._reads = reads
        self._callbacks: list[Callable[[], None]] = []

    @property
    def call(self) -> ServerCall:
        """This object, for functions that take a ServerCall."""
        return self  # type: ignore[return-value]

    @property
    def is_full(self) -> bool:
        return not self._reads

    @property
    def is_idle(self) -> bool:
        return self._reads or not self.sent

    def authenticate(self, _caller: str = "") -> bool:
        return True

    def time_remaining_s(self) -> float | None:
        return None

    async def next_size(self) -> int | None:
        if not self._requests:
            return None
        if isinstance(self._requests[0], GrpcError):
            raise self._requests[0]
        return len(self._requests[0])

    async def receive(self) -> bytes:
        if self.arrived is not None:
            await self.arrived.wait()
        first, *self._requests = self._requests
        assert isinstance(first, bytes)
        return first

    def send(self, message: bytes) -> None:
        self.sent.append(message)

    def before_write(self, callback: Callable[[], None]) -> None:
        callback()

    async def room(self) -> None:
        if not self._reads:
            await asyncio.Event().wait()

    def finish(self, status: Status = SUCCESS) -> None:
        self.status = self.status or status

    def add_done_callback(self, callback: Callable[[], None]) -> None:
        self._callbacks.append(callback)

    def end(self) -> None:
        for callback in self._callbacks:
            callback()
