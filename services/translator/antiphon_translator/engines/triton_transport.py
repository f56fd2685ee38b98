"""The transport of the ModelStreamInfer RPC: its interface, and its implementation on grpc.aio."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import grpc

from antiphon_core.flow import Flow

INFER_PATH = "/inference.GRPCInferenceService/ModelStreamInfer"

Metadata = Sequence[tuple[str, str]]
Receive = Callable[[Sequence[bytes]], None]
"""Takes the response messages that one read brought. It never waits and never raises."""


class InferCall(Protocol):
    """One RPC that was started."""

    async def wait_end(self) -> None:
        """Returns when the RPC has ended with status OK, or raises its error. By then all responses were received."""

    def cancel(self) -> bool:
        """Ends the RPC; False if it had ended by itself."""


class InferStreams(Protocol):
    """RPCs to one endpoint."""

    async def start(
        self, path: str, message: bytes, receive: Receive, *, flow: Flow, metadata: Metadata = ()
    ) -> InferCall:
        """Sends a request. While `flow` is paused no responses are received."""

    async def close(self) -> None:
        """Ends the RPCs that still run, with an error."""


class GrpcAioStreams:
    """RPCs on a channel of grpc.aio, which reads one message at a time."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._channel = channel

    async def start(
        self, path: str, message: bytes, receive: Receive, *, flow: Flow, metadata: Metadata = ()
    ) -> GrpcAioCall:
        # On the wire this equals a request stream of one message, but the call takes one step instead of three.
        infer: Any = self._channel.unary_stream(path)
        return GrpcAioCall(infer(message, metadata=tuple(metadata)), receive, flow)

    async def close(self) -> None:
        """Does nothing: the RPCs end with the channel, which belongs to the caller."""


class GrpcAioCall:
    """One RPC of grpc.aio, read by the task that waits for its end."""

    def __init__(self, call: Any, receive: Receive, flow: Flow) -> None:
        self._call = call
        self._receive = receive
        self._flow = flow
        self._has_ended = False

    async def wait_end(self) -> None:
        try:
            while (message := await self._call.read()) is not grpc.aio.EOF:
                self._receive((message,))
                await self._flow.wait_until_open()
        except grpc.aio.AioRpcError:
            self._has_ended = True
            raise
        self._has_ended = True

    def cancel(self) -> bool:
        self._call.cancel()
        return not self._has_ended
