"""Messages of event logs to values and back; see `antiphon_store.wire`.

The messages are hot, so they are protobuf's own classes (`antiphon_core.rpc.message_types`): an absent message is not
None, but `HasField` says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from antiphon_core.errors import AntiphonError, StoreUnavailable
from antiphon_core.ports.event_logs import Checkpoint, EventAppend, EventBatch
from antiphon_core.ports.store import Fence
from antiphon_core.rpc import status
from antiphon_core.rpc.methods import STORE

_AppendEventsRequest = STORE.methods["AppendEvents"].request.message
_AppendToLogs = STORE.methods["AppendToLogs"]
_AppendToLogsRequest, _AppendToLogsResponse = _AppendToLogs.request.message, _AppendToLogs.response.message
_ReadEventsResponse = STORE.methods["ReadEvents"].response.message


def to_append(append: EventAppend, fence: Fence | None) -> Any:
    return _AppendEventsRequest(
        response_id=append.response_id,
        expected_position=append.expected_position,
        count=append.count,
        frames=append.frames,
        fence={"session_id": fence.session_id, "token": fence.token} if fence is not None else None,
        checkpoint=_to_checkpoint(append.checkpoint) if append.checkpoint is not None else None,
        terminal=append.terminal,
    )


def from_append(message: Any) -> EventAppend:
    return EventAppend(
        response_id=message.response_id,
        expected_position=message.expected_position,
        count=message.count,
        frames=message.frames,
        checkpoint=_from_checkpoint(message.checkpoint) if message.HasField("checkpoint") else None,
        terminal=message.terminal,
    )


def from_append_fence(message: Any) -> Fence | None:
    return Fence(message.fence.session_id, message.fence.token) if message.HasField("fence") else None


def to_appends(appends: Sequence[Any]) -> Any:
    return _AppendToLogsRequest(appends=appends)


def to_outcomes(outcomes: Sequence[int | AntiphonError]) -> Any:
    """`outcomes` are next positions, and errors."""
    return _AppendToLogsResponse(results=[_to_outcome(outcome) for outcome in outcomes])


def from_outcomes(message: Any) -> Sequence[int | AntiphonError]:
    return [
        status.from_bytes(result.error, StoreUnavailable) if result.error else result.next_position
        for result in message.results
    ]


def _to_outcome(outcome: int | AntiphonError) -> dict[str, Any]:
    return {"next_position": outcome} if isinstance(outcome, int) else {"error": status.to_bytes(outcome)}


def to_batch(batch: EventBatch) -> Any:
    return _ReadEventsResponse(
        first_sequence=batch.first_sequence,
        count=batch.count,
        frames=batch.frames,
        terminal=batch.terminal,
        checkpoints=[_to_checkpoint(checkpoint) for checkpoint in batch.checkpoints],
    )


def from_batch(message: Any) -> EventBatch:
    return EventBatch(
        first_sequence=message.first_sequence,
        count=message.count,
        frames=message.frames,
        terminal=message.terminal,
        checkpoints=tuple(_from_checkpoint(checkpoint) for checkpoint in message.checkpoints),
    )


def _to_checkpoint(checkpoint: Checkpoint) -> dict[str, Any]:
    return {"offset": checkpoint.offset, "token_ids": checkpoint.token_ids}


def _from_checkpoint(message: Any) -> Checkpoint:
    return Checkpoint(offset=message.offset, token_ids=tuple(message.token_ids))
