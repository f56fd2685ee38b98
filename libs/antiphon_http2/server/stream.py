"""One call of a connection, as the server sees it.

           headers          trailers queued        trailers written
(none) ──────────▶ open ─────────────────▶ ending ─────────────────▶ ended
                     │                        │                        ▲
                     └────────────────────────┴────────────────────────┘
                       reset by either side, or the connection is lost
"""

from __future__ import annotations

from typing import Any

from antiphon_http2.server.request_reader import RequestReader
from antiphon_http2.server.requests import RequestHead


class ServerStream:
    """The state of one call. `owner` belongs to the connection's owner."""

    __slots__ = (
        "charged_items",
        "has_headers",
        "head",
        "id",
        "is_authenticated",
        "is_awaited",
        "is_ended",
        "is_ending",
        "is_read",
        "owed_bytes",
        "owner",
        "requests",
        "waits_for_room",
    )

    def __init__(self, stream_id: int, head: RequestHead, *, message_bytes_max: int) -> None:
        self.id = stream_id
        self.head = head
        self.requests = RequestReader(message_bytes_max)
        self.owed_bytes = 0  # received, without flow control credit; negative if more was credited than came
        self.is_awaited = False  # the owner waits for requests
        self.charged_items = 0  # of the budget for calls of strangers
        self.is_authenticated = False
        self.waits_for_room = False  # the owner waits until its answers are sent
        self.is_read = False  # the client has sent END_STREAM
        self.has_headers = False  # those of the answer were sent
        self.is_ending = False
        self.is_ended = False
        self.owner: Any = None
