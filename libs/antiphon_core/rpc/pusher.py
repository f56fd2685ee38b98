"""Sends answers of a stream past its handler's task: the switch to the task costs as much as a small answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from antiphon_core.rpc.codec import encode
from antiphon_core.rpc.delivery import UNCOUNTED_BYTES_MAX
from antiphon_core.rpc.message_types import MessageType
from antiphon_http2.server.call import ServerCall


class Pusher:
    """The answers of one stream. What the handler has yielded is sent before what is pushed later."""

    def __init__(self, call: ServerCall, kind: MessageType) -> None:
        self._call = call
        self._kind = kind

    def before_write(self, callback: Callable[[], None]) -> None:
        """Calls `callback` at the end of this iteration of the event loop, so that it pushes all answers that were made
        until then. An exception of it ends the stream."""
        self._call.before_write(callback)

    def push(self, answer: Any) -> bool:
        """Sends an answer. Returns False, and sends nothing, where the handler has to yield it: earlier answers wait
        for the caller, the answer is so large that it counts, or it cannot be serialized."""
        if not self._call.is_idle:
            return False
        try:
            data = encode(self._kind, answer)
        except (ValueError, TypeError):  # raised again where the handler yields it
            return False
        if len(data) > UNCOUNTED_BYTES_MAX:
            return False
        self._call.send(data)
        return True
