"""Event logs, which only grow at their end.

    open at n ──append k at n──> open at n + k
              └─append k at n, terminal──> closed at n + k

Row LOG: `next` (the number of the next event), `closed`, `until` (its expiry), `size` (bytes of frames). Row BATCH, one
for each append: `count`, `terminal`, `checkpoint` (offset and token ids), `crc`, and `steps` (round, kind, call and
data of each) if there are any; the frames are its items.
A retried append is recognised before its fence and the state of the log are checked, because both may have changed
since the first one, whose answer got lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from antiphon_core import damage
from antiphon_core.errors import LogClosed, LogNotFound, PositionMismatch
from antiphon_core.ports.event_logs import Checkpoint, EventAppend, EventBatch, Step, StepKind
from antiphon_core.ports.store import Fence
from antiphon_store.decisions import approvals, leases
from antiphon_store.rows.model import Add, Condition, Get, Index, Kind, Now, Range, Ref, Row
from antiphon_store.rows.view import Finish, View, answer


@dataclass(frozen=True, slots=True)
class LogPage:
    """A part of a log, in one snapshot. `batches` are the appended ones, whole and in order."""

    batches: tuple[EventBatch, ...]
    next_position: int
    is_closed: bool


def append(view: View, append: EventAppend, *, fence: Fence | None, ttl_ms: int) -> Finish[int]:
    """Appends one batch, and returns the next position. PositionMismatch, LogClosed, StaleFence,
    ApprovalAlreadyUsed."""
    next_position = append.expected_position + append.count
    if view.peek(Kind.LOG, append.response_id) is not None and _is_there(view, append):
        return answer(next_position)
    if fence is not None:
        leases.require_fence(view, fence)
    extend(view, append, ttl_ms=ttl_ms)
    approvals.note_sent(view, append.sends, append.response_id)
    return answer(next_position)


def extend(view: View, append: EventAppend, *, ttl_ms: int) -> None:
    """Writes a batch at the end of its log. PositionMismatch, LogClosed."""
    log_id, position = append.response_id, append.expected_position
    if position == 0:
        view.file(Index.ENDS, "", f"{Kind.LOG}/{log_id}", Now(ttl_ms))
    if not _tests_end(view, log_id, position):
        _begin_anew(view, log_id, position)
    view.put(Kind.BATCH, batch_id(log_id, position), _batch_fields(append), append.frames)
    end = {"next": position + append.count, "closed": int(append.terminal), "until": Now(ttl_ms)}
    if position == 0:
        view.put(Kind.LOG, log_id, {**end, "size": len(append.frames)})
    else:
        view.set(Kind.LOG, log_id, **end, size=Add(len(append.frames)))


def read(view: View, log_id: str, *, position: int, max_bytes: int) -> Finish[LogPage]:
    """Reads batches, the first of which contains `position`. LogNotFound."""
    if not (view.test(Kind.LOG, log_id, Condition.PRESENT) and view.test(Kind.LOG, log_id, Condition.AHEAD, "until")):
        raise LogNotFound.of(log_id)

    def page(log: Row, rows: Sequence[tuple[str, Row]]) -> LogPage:
        fields = log.fields
        batches = [_to_batch(row_id, row) for row_id, row in rows] if position < fields["next"] else []
        return LogPage(tuple(batches), fields["next"], bool(fields["closed"]))

    found = Range(Kind.BATCH, f"{log_id}/", batch_id(log_id, position), max_bytes)
    return view.answer_from(page, Get(Ref(Kind.LOG, log_id)), found)


def _tests_end(view: View, log_id: str, position: int) -> bool:
    """Tests that the log is open and ends at `position`; a new one ends at 0."""
    if position == 0:
        return view.test(Kind.LOG, log_id, Condition.ABSENT)
    return (
        view.test(Kind.LOG, log_id, Condition.IS, "next", position)
        and view.test(Kind.LOG, log_id, Condition.IS, "closed", 0)
        and view.test(Kind.LOG, log_id, Condition.AHEAD, "until")
    )


def _begin_anew(view: View, log_id: str, position: int) -> None:
    """Deletes the batches of an expired log, so that it begins anew. PositionMismatch: the log ends elsewhere than at
    `position`. LogClosed: nothing can be appended to it."""
    row = view.need(Kind.LOG, log_id)
    fields = row.fields if row is not None and row.fields["until"] > view.now_ms else {"next": 0, "closed": 0}
    if fields["closed"]:
        raise LogClosed.of(log_id)
    if fields["next"] != position:
        raise PositionMismatch.of(log_id, expected=position, actual=fields["next"])
    view.delete_below(Kind.BATCH, f"{log_id}/")


def _is_there(view: View, append: EventAppend) -> bool:
    """Whether the log has not expired and has an equal batch at this position."""
    log = view.need(Kind.LOG, append.response_id)
    if log is None or log.fields["until"] <= view.now_ms or log.fields["next"] <= append.expected_position:
        return False
    batch = view.need(Kind.BATCH, batch_id(append.response_id, append.expected_position))
    if batch is None or batch.items != append.frames:
        return False
    return {**_batch_fields(append), "v": 0} == {**batch.fields, "v": 0}


def batch_id(log_id: str, position: int) -> str:
    """The id of the batch that begins at `position`."""
    return f"{log_id}/{position:012d}"


def _batch_fields(append: EventAppend) -> dict[str, Any]:
    checkpoint = append.checkpoint
    steps = [[each.round, each.kind.value, each.call_id, each.data.decode()] for each in append.steps]
    return {
        "count": append.count,
        "terminal": int(append.terminal),
        "checkpoint": None if checkpoint is None else [checkpoint.offset, list(checkpoint.token_ids)],
        "crc": checksum(append.response_id, append.expected_position, append.frames),
        **({"steps": steps} if steps else {}),
    }


def _to_batch(row_id: str, row: Row) -> EventBatch:
    log_id, _, number = row_id.rpartition("/")
    fields = row.fields
    checkpoint = fields["checkpoint"]
    if fields["crc"] != checksum(log_id, int(number), row.items) or isinstance(checkpoint, str):
        raise damage.report(f"the event log of '{log_id}'", "their checksum differs")
    checkpoints = () if checkpoint is None else (Checkpoint(checkpoint[0], tuple(checkpoint[1])),)
    steps = tuple(
        Step(number, StepKind(kind), call_id, data.encode()) for number, kind, call_id, data in fields.get("steps", ())
    )
    return EventBatch(int(number), fields["count"], row.items, bool(fields["terminal"]), checkpoints, steps)


def checksum(log_id: str, position: int, frames: bytes) -> int:
    """CRC-32 of a batch's log id, position and frames."""
    return crc32(frames, crc32(f"{log_id}:{position}".encode()))
