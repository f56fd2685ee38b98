"""How a turn ends: its record is written before anybody is told, and whatever happens there is exactly one end."""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from dataclasses import dataclass, replace

from antiphon_core import events, response
from antiphon_core.errors import AntiphonError, InternalError, SessionLost, StaleFence, Timeout, Unavailable
from antiphon_core.fold import Fold
from antiphon_core.jsons import Object, loads
from antiphon_core.ports.event_logs import EventAppend
from antiphon_core.ports.full_store import FullStore
from antiphon_core.ports.store import Fence, LogEnd, Stamp, Status, TurnCommit
from antiphon_core.ports.translator import Batch, Final
from antiphon_edge.turns import lost_parents
from antiphon_edge.turns.begun import Begun
from antiphon_edge.turns.store_patience import asked_again

log = logging.getLogger(__name__)

PASSING = (Unavailable, Timeout)
"""What may be over the next time that somebody asks."""


@dataclass(frozen=True, slots=True)
class Ended:
    """`batch` is what its caller is told. Unless `is_settled` another attempt to store the response may succeed.
    `unused` is the turn with what it took and is to give back."""

    batch: Batch
    is_settled: bool = True
    unused: Begun | None = None


class Endings:
    """Ends turns. One instance serves all of a process."""

    def __init__(self, store: FullStore) -> None:
        self._store = store

    async def end(self, begun: Begun, fold: Fold, batch: Batch) -> Ended:
        """The terminal batch, once its record is safe; a failure in its place when it cannot be made safe."""
        unused = None
        if begun.key is not None and came_to_nothing(final_of(batch)):
            unused, begun = begun, replace(begun, key=None, lease=None)  # so the record stands beside its session
        try:
            await self.commit(begun, batch, final_of(batch))
        except AntiphonError as error:
            log.error("response %s could not be stored: %s", begun.response_id, error)
            return await self._unstored(begun, fold, _for_caller(begun, error))
        return Ended(batch, unused=unused)

    async def lost(self, begun: Begun, fold: Fold, error: SessionLost) -> Ended:
        """The end of a turn whose session is not its own any more: nothing is stored."""
        log.warning("response %s was cut off: %s", begun.response_id, error)
        return await self._unstored(begun, fold, error)

    async def _unstored(self, begun: Begun, fold: Fold, error: AntiphonError) -> Ended:
        batch = failure(fold, error)
        if isinstance(error, PASSING):
            return Ended(batch, is_settled=False)
        await self._close_log(begun, batch)
        return Ended(batch, unused=begun if isinstance(error, SessionLost) else replace(begun, key=None))

    async def _close_log(self, begun: Begun, batch: Batch) -> None:
        """Tells other readers of a response that can never be stored what its caller is told."""
        if not begun.logged:
            return
        end = EventAppend(begun.response_id, batch.first_sequence, batch.count, batch.frames, terminal=True)
        try:
            await begun.under_fence(lambda fence: self._store.append_events(begun.tenant, end, fence=fence))
        except AntiphonError as error:
            log.warning("the event log of %s stays open: %s", begun.response_id, error.message)

    def broken(self, begun: Begun, fold: Fold, error: Exception) -> Batch:
        """The terminal batch of a turn that broke after its first event."""
        if not isinstance(error, AntiphonError):
            log.error("response %s broke", begun.response_id, exc_info=error)
            error = InternalError("The server had an error while generating this response.")
        log.warning("response %s was cut off: %s", begun.response_id, error)
        return failure(fold, error)

    async def cancel(self, begun: Begun, fold: Fold) -> None:
        """Writes the record of a turn that was given up. Raises when it cannot be written."""
        batch = cancellation(fold)
        await self.commit(begun, batch, final_of(batch))

    async def commit(self, begun: Begun, batch: Batch, final: Final) -> None:
        """Writes the record, and closes the log if there is one."""
        if begun.keep:
            await lost_parents.committed(begun, lambda turn: self._commit(turn, batch, final))

    async def _commit(self, begun: Begun, batch: Batch, final: Final) -> None:
        commit = TurnCommit(
            record=begun.ended(final),
            fence=begun.fence,
            idempotency_key=begun.key,
            precondition=begun.precondition,
            log_end=LogEnd(batch.first_sequence, batch.frames) if begun.logged else None,
        )

        def write() -> Awaitable[Stamp]:
            return begun.under_fence(lambda fence: self._store.commit_turn(begun.tenant, _proven(commit, fence)))

        await asked_again(write)  # it may have happened all the same: committing the same record again is harmless


def _proven(commit: TurnCommit, fence: Fence | None) -> TurnCommit:
    """The same under the fence that its job has now."""
    return replace(commit, precondition=replace(commit.precondition, fence=fence))


def failure(fold: Fold, error: AntiphonError) -> Batch:
    """The end of a stream that broke: the `error` event, then response.failed with everything there was."""
    ended = response.failed(fold.response(), error)
    first = fold.next_sequence
    failed: Object = {"type": events.FAILED, "sequence_number": first + 1, "response": ended}
    frames = events.encode(events.error_event(first, error)) + events.encode(failed)
    return Batch(first, 2, frames, _final(Status.FAILED, ended))


def _for_caller(begun: Begun, error: AntiphonError) -> AntiphonError:
    """What a refusal of its record means to the caller of a turn, who named no part of the record but its session. A
    commit may bring the fence of a job besides that of the session."""
    session_id = begun.fence.session_id if begun.fence is not None else None
    if isinstance(error, StaleFence) and error.facts["session_id"] == session_id:
        return SessionLost.of(session_id)
    if error.field is None or not error.field.startswith("record"):
        return error
    field = "conversation" if error.field == "record.session_id" else None
    return type(error)(error.message, field=field, **error.facts)


def came_to_nothing(final: Final) -> bool:
    """Whether a turn failed before its model had said anything, for a reason that passes."""
    if final.status is not Status.FAILED:
        return False
    ended: Object = loads(final.body)
    usage = ended["usage"]  # what the model was made to begin with is output, too, but nothing that it said
    has_said = usage["output_tokens"] > 0 if usage else bool(loads(final.output_items))
    return not has_said and isinstance(response.error_of(ended), PASSING)


def cancellation(fold: Fold) -> Batch:
    """The end of a stream that nobody wanted any more. OpenAI has no event for that; readers of a log need one."""
    ended = response.cancelled(fold.response())
    first = fold.next_sequence
    event: Object = {"type": events.CANCELLED, "sequence_number": first, "response": ended}
    return Batch(first, 1, events.encode(event), _final(Status.CANCELLED, ended))


def final_of(batch: Batch) -> Final:
    if batch.final is None:
        raise AssertionError("only a terminal batch ends a turn")
    return batch.final


def _final(status: Status, ended: Object) -> Final:
    body, output_items = response.split(ended)
    return Final(status=status, body=body, output_items=output_items)
