"""Unary calls: one request, one answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from antiphon_http2.client.client import GrpcStreams
from antiphon_http2.client.responses import Fields
from antiphon_http2.errors import GrpcError
from antiphon_http2.statuses import INTERNAL


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a unary call, with the trailers behind it."""

    message: bytes
    trailers: Fields


async def call_unary(
    streams: GrpcStreams,
    path: str,
    message: bytes,
    *,
    metadata: Sequence[tuple[str, str]] = (),
    timeout_s: float | None = None,
) -> Answer:
    """Makes a unary call. Cancelling cancels the call. Raises GrpcError, and what `GrpcStreams.start` raises."""
    messages: list[bytes] = []

    def receive(received: Sequence[bytes]) -> None:
        messages.extend(received)
        if len(messages) > 1:  # at once: a server could send without an end
            raise GrpcError(INTERNAL, "The server sent several messages as the answer to a unary call.")

    call = await streams.start(path, message, receive, metadata=metadata, timeout_s=timeout_s)
    try:
        await call.wait_end()
    finally:
        call.cancel()
    if not messages:
        raise GrpcError(INTERNAL, "The server ended a unary call without an answer.")
    return Answer(messages[0], call.trailers)
