"""How long a chain may be, and a session. Over the limit is an error; nothing is ever cut silently."""

from __future__ import annotations

from dataclasses import dataclass

from antiphon_core.errors import ChainTooLong, LimitExceeded


@dataclass(frozen=True, slots=True)
class ChainBounds:
    """The limits of one read of the chain that ends in `response_id`."""

    response_id: str
    max_depth: int
    max_bytes: int

    def require_depth(self, responses: int) -> None:
        if responses > self.max_depth:
            raise ChainTooLong.of(self.response_id, limit=f"{self.max_depth} responses")

    def require_bytes(self, size_bytes: int) -> None:
        if size_bytes > self.max_bytes:
            raise ChainTooLong.of(self.response_id, limit=f"{self.max_bytes} bytes")


def require_room(session_id: str, responses: int, most: int) -> None:
    """LimitExceeded when a session that made so many readable responses may not make another."""
    if responses >= most:
        raise LimitExceeded(
            f"Session '{session_id}' has made {most} responses, which is as many as it may. Delete some, fork it, or "
            "begin another session.",
            field="record.session_id",
            limit=str(most),
        )
