"""The state of one call on a connection.

              begin            headers             trailers, reset,             messages
             ────────▶        ────────▶        connection lost, cancel         delivered
    waiting            open             reading ──────────────────────▶ ended ──────────▶ reported
             ◀────────
              refused                   (waiting and open may end, too)

A stream waits while the server allows no more streams. After a stream has ended, its outcome is reported once the
receiver has all messages, so not while the receiver is paused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from antiphon_http2.client.requests import Request
from antiphon_http2.client.responses import Fields
from antiphon_http2.limits import SLICE_MESSAGES_MAX
from antiphon_http2.messages import MessageReader, frame_message

Receive = Callable[[Sequence[bytes]], None]
OnEnd = Callable[[Exception | None], None]


class Stream:
    """One call. `receive` is called with the messages of each read, `on_end` once at the end; neither may block.

    `headers` and `body` are the request. They are kept until the server answers, because a refused stream is sent
    again.
    """

    __slots__ = (
        "_on_end",
        "_receive",
        "body",
        "has_headers",
        "headers",
        "id",
        "interim",
        "is_ended",
        "is_paused",
        "is_reported",
        "is_unsettled",
        "messages",
        "outcome",
        "owed_bytes",
        "refusals",
        "trailers",
    )

    def __init__(self, request: Request, receive: Receive, on_end: OnEnd, *, message_bytes_max: int) -> None:
        self._receive = receive
        self._on_end = on_end
        self.headers = request.headers
        self.body = frame_message(request.message)
        self.refusals = 0
        self.id = 0  # 0 while it waits
        self.messages = MessageReader(message_bytes_max)
        self.owed_bytes = 0  # received, without flow control credit so far
        self.outcome: Exception | None = None  # None is OK
        self.trailers: Fields = {}
        self.has_headers = False
        self.interim = 0  # heads before the headers of the answer
        self.is_paused = False
        self.is_unsettled = False  # in the list of streams that `CallTable.settle` processes
        self.is_ended = False
        self.is_reported = False

    def begin_reading(self) -> None:
        """Notes that the headers of the answer have arrived."""
        self.has_headers = True
        self.body = b""

    def end(self, outcome: Exception | None) -> None:
        self.is_ended = True
        self.body = b""
        self.outcome = outcome

    def drop_messages(self) -> None:
        self.messages.ready = []

    @property
    def is_behind(self) -> bool:
        """Whether messages wait for the next iteration of the event loop."""
        return bool(self.messages.ready) and not self.is_paused

    def deliver(self) -> None:
        """Passes complete messages to the receiver, unless it is paused: one slice of work, and the others later.
        Raises what the receiver raises."""
        if self.messages.ready and not self.is_paused:
            messages, self.messages.ready = self.messages.ready, []
            if len(messages) > SLICE_MESSAGES_MAX:
                self.messages.ready = messages[SLICE_MESSAGES_MAX:]
                del messages[SLICE_MESSAGES_MAX:]
            self._receive(messages)

    def report(self) -> None:
        """Calls `on_end` if the stream has ended and all messages are delivered, and drops both callbacks. The
        callbacks refer to the caller, which refers to the stream: this cycle would keep a finished turn in memory until
        a full garbage collection."""
        if self.is_ended and not self.is_reported and not self.messages.ready:
            self.is_reported = True
            on_end = self._on_end
            self._receive, self._on_end = _nothing_more, _nothing_more
            on_end(self.outcome)


def _nothing_more(_given: object) -> None:
    """The callbacks of a stream whose end was reported."""
