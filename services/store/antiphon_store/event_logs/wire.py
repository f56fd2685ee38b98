"""Messages of event logs to values and back; see `antiphon_store.wire`."""

from __future__ import annotations

from antiphon_core.ports.event_logs import Checkpoint, EventAppend, EventBatch
from antiphon_core.ports.store import Fence
from antiphon_protos.antiphon.store import v1
from antiphon_store.wire import to_fence


def to_append(append: EventAppend, fence: Fence | None) -> v1.AppendEventsRequest:
    return v1.AppendEventsRequest(
        response_id=append.response_id,
        expected_position=append.expected_position,
        count=append.count,
        frames=append.frames,
        fence=to_fence(fence),
        checkpoint=_to_checkpoint(append.checkpoint) if append.checkpoint is not None else None,
        terminal=append.terminal,
    )


def from_append(message: v1.AppendEventsRequest) -> EventAppend:
    return EventAppend(
        response_id=message.response_id,
        expected_position=message.expected_position,
        count=message.count,
        frames=message.frames,
        checkpoint=_from_checkpoint(message.checkpoint) if message.checkpoint is not None else None,
        terminal=message.terminal,
    )


def to_batch(batch: EventBatch) -> v1.ReadEventsResponse:
    return v1.ReadEventsResponse(
        first_sequence=batch.first_sequence,
        count=batch.count,
        frames=batch.frames,
        terminal=batch.terminal,
        checkpoints=[_to_checkpoint(checkpoint) for checkpoint in batch.checkpoints],
    )


def from_batch(message: v1.ReadEventsResponse) -> EventBatch:
    return EventBatch(
        first_sequence=message.first_sequence,
        count=message.count,
        frames=message.frames,
        terminal=message.terminal,
        checkpoints=tuple(_from_checkpoint(checkpoint) for checkpoint in message.checkpoints),
    )


def _to_checkpoint(checkpoint: Checkpoint) -> v1.Checkpoint:
    return v1.Checkpoint(offset=checkpoint.offset, token_ids=list(checkpoint.token_ids))


def _from_checkpoint(message: v1.Checkpoint) -> Checkpoint:
    return Checkpoint(offset=message.offset, token_ids=tuple(message.token_ids))
