"""The errors of gRPC calls.

    GrpcError              the call ended with a status other than OK; `status` is the number of a gRPC status
    └── ConnectionLost     UNAVAILABLE: there is no connection, it ended before the call, or the call was given up

An exception that the caller's own `receive` raised is raised unchanged by `GrpcCall.wait_end`.
"""

from __future__ import annotations

from antiphon_http2.statuses import UNAVAILABLE, name_of


class GrpcError(Exception):
    """A call that failed.

    `details` is the google.rpc.Status that the server sent with the status, serialized; empty if it sent none.
    `is_unprocessed` is true if the server cannot have begun the call, so that a retry is safe for any call.
    """

    def __init__(self, status: int, message: str, *, details: bytes = b"", is_unprocessed: bool = False) -> None:
        super().__init__(f"{name_of(status)}: {message}")
        self.status = status
        self.message = message
        self.details = details
        self.is_unprocessed = is_unprocessed


class ConnectionLost(GrpcError):
    """There is no connection, it ended before the call, or the call was given up because the server was silent."""

    def __init__(self, message: str, *, is_unprocessed: bool = False) -> None:
        super().__init__(UNAVAILABLE, message, is_unprocessed=is_unprocessed)
