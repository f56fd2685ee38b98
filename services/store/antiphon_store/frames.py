"""Cuts and joins runs of frames at event boundaries, without parsing them."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon_core.ports.event_logs import EventBatch
from antiphon_core.ports.store import FRAME_END


def without_first(frames: bytes, count: int) -> bytes:
    """The frames after the first `count`, which must exist."""
    start = 0
    for _ in range(count):
        start = frames.index(FRAME_END, start) + len(FRAME_END)
    return frames[start:]


def join_batches(batches: Sequence[EventBatch], position: int) -> EventBatch:
    """Consecutive batches as one that begins with the event at `position`, which the first of them holds."""
    first, last = batches[0], batches[-1]
    rest = without_first(first.frames, position - first.first_sequence)
    return EventBatch(
        first_sequence=position,
        count=last.first_sequence + last.count - position,
        frames=b"".join((rest, *(batch.frames for batch in batches[1:]))),
        terminal=last.terminal,
        checkpoints=tuple(checkpoint for batch in batches for checkpoint in batch.checkpoints),
        steps=tuple(step for batch in batches for step in batch.steps),
    )
