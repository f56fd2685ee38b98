"""The port of event logs: the stored events of responses, for replay, resume and follow.

A log belongs to a response id, whose record need not be stored yet. Its events are numbered from 0 without gaps; frames
are stored unchanged. An append with `terminal` closes the log. A log is deleted some time after its last append.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Protocol

from antiphon_core.ports.store import Fence


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Token ids that the model generated. `offset` is the number of ids generated before them."""

    offset: int
    token_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class EventAppend:
    """`count` frames to append, each closed by a blank line, the first with the sequence number `expected_position`.

    `checkpoint` has the token ids since the last checkpoint, so that another process can continue the generation.
    """

    response_id: str
    expected_position: int
    count: int
    frames: bytes
    checkpoint: Checkpoint | None = None
    terminal: bool = False


@dataclass(frozen=True, slots=True)
class EventBatch:
    """Consecutive events of a log. `terminal`: the last of them is the last event of the log."""

    first_sequence: int
    count: int
    frames: bytes
    terminal: bool = False
    checkpoints: tuple[Checkpoint, ...] = ()


class EventLogs(Protocol):
    """Every call belongs to one tenant; another tenant's logs do not exist for it."""

    async def append_events(self, tenant: str, append: EventAppend, *, fence: Fence | None = None) -> int:
        """Appends events and returns the sequence number of the next one. Idempotent.

        `fence` is that of the session's lease, or of the job with the response's id. PositionMismatch: the log does not
        end right before `expected_position`. LogClosed: the log has its terminal event. StaleFence."""

    def read_events(
        self, tenant: str, response_id: str, *, after: int | None = None, follow: bool = False
    ) -> AsyncGenerator[EventBatch, None]:
        """Yields the events with a sequence number higher than `after` (None: all), in order and each once.

        Ends after the events that were stored when it began; with `follow` it waits for more, and ends after the
        terminal event. LogNotFound: the log was never written or is deleted, which can happen while following."""
