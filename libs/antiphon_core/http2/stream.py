"""One call on a connection, as the protocol sees it.

              begin            headers             trailers, reset,             messages
             ────────▶        ────────▶        connection lost, cancel         delivered
    waiting            open             reading ──────────────────────▶ ended ──────────▶ reported
             ◀────────
              refused                   (waiting and open may end, too)

A stream waits while the server allows no more of them. A stream that has ended is reported, with its outcome, after its
receiver has had all messages: while the receiver pauses, both wait.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from antiphon_core.http2.messages import MessageReader, framed
from antiphon_core.http2.requests import Request

Receive = Callable[[Sequence[bytes]], None]
OnEnd = Callable[[Exception | None], None]


class Stream:
    """`receive` is called with what one read brought, `on_end` once; neither may wait.

    `headers` and `body` are the request. They are kept until the server answers: a refused stream is sent again.
    """

    __slots__ = (
        "_on_end",
        "_receive",
        "body",
        "has_headers",
        "headers",
        "id",
        "is_ended",
        "is_paused",
        "is_reported",
        "is_unsettled",
        "messages",
        "outcome",
        "owed_bytes",
        "refusals",
    )

    def __init__(self, request: Request, receive: Receive, on_end: OnEnd, *, message_bytes_max: int) -> None:
        self._receive = receive
        self._on_end = on_end
        self.headers = request.headers
        self.body = framed(request.message)
        self.refusals = 0
        self.id = 0  # none while it waits
        self.messages = MessageReader(message_bytes_max)
        self.owed_bytes = 0  # received, and not given back as credit
        self.outcome: Exception | None = None  # None is OK
        self.has_headers = False
        self.is_paused = False
        self.is_unsettled = False  # stands in its connection's list of streams to deliver or report
        self.is_ended = False
        self.is_reported = False

    def begin_reading(self) -> None:
        """The headers of the answer have come."""
        self.has_headers = True
        self.body = b""

    def end(self, outcome: Exception | None) -> None:
        self.is_ended = True
        self.body = b""
        self.outcome = outcome

    def drop_messages(self) -> None:
        self.messages.ready = []

    def deliver(self) -> None:
        """Raises what the receiver raises."""
        if self.messages.ready and not self.is_paused:
            messages, self.messages.ready = self.messages.ready, []
            self._receive(messages)

    def report(self) -> None:
        """Reports the end, and drops both callbacks. Callers hold the stream: a cycle would keep all that belongs to a
        finished turn until a full garbage collection."""
        if self.is_ended and not self.is_reported and not self.messages.ready:
            self.is_reported = True
            on_end = self._on_end
            self._receive, self._on_end = _nothing_more, _nothing_more
            on_end(self.outcome)


def _nothing_more(_given: object) -> None:
    """The callback of a stream that was reported."""
