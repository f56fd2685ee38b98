"""The event logs of the store: what a response's stream said so far, for readers that come later or come back.

A log belongs to a response id, which need not be stored yet. Its events are numbered from 0 without gaps; frames are
kept as they were given. It ends with the batch that says `terminal`, and is forgotten some time after its last append.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Protocol

from antiphon_core.ports.store import Fence


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Token ids that the model generated; `offset` is how many came before them."""

    offset: int
    token_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class EventAppend:
    """Frames to be appended: `count` of them, each closed by a blank line, the first with number `expected_position`.

    `checkpoint` holds the token ids since the last one, for whoever takes the generation over.
    """

    response_id: str
    expected_position: int
    count: int
    frames: bytes
    checkpoint: Checkpoint | None = None
    terminal: bool = False


@dataclass(frozen=True, slots=True)
class EventBatch:
    """Consecutive events of a log. `terminal`: the last of them ends the log."""

    first_sequence: int
    count: int
    frames: bytes
    terminal: bool = False
    checkpoints: tuple[Checkpoint, ...] = ()


class EventLogs(Protocol):
    """Every call belongs to one tenant; another tenant's logs do not exist for it."""

    async def append_events(self, tenant: str, append: EventAppend, *, fence: Fence | None = None) -> int:
        """Appends, and tells the number that the next event will have. The same again gives the same answer.

        `fence` is that of a session's lease, or of the job of the same id as the response. PositionMismatch: the log
        does not end right before `expected_position`. LogClosed: it had its last event. StaleFence."""

    def read_events(
        self, tenant: str, response_id: str, *, after: int | None = None, follow: bool = False
    ) -> AsyncGenerator[EventBatch, None]:
        """The events with a number higher than `after` (None: all), in order, without overlap.

        Ends with what was there at the beginning; with `follow` it waits for more and ends with the log. Closing the
        generator ends the reading. LogNotFound: never written to, or too long ago; also while following."""
