"""How a turn ends: its record is written before anybody is told, and whatever happens there is exactly one end."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from antiphon_core import events, response
from antiphon_core.errors import AntiphonError, InternalError, Timeout, Unavailable
from antiphon_core.fold import Fold
from antiphon_core.jsons import Object
from antiphon_core.ports.store import LogEnd, ResponseStore, Status, TurnCommit
from antiphon_core.ports.translator import Batch, Final
from antiphon_edge.turns import lost_parents
from antiphon_edge.turns.begun import Begun

log = logging.getLogger(__name__)

COMMIT_TRIES = 2


@dataclass(frozen=True, slots=True)
class Ended:
    """`batch` is what its caller is told. Unless `is_settled` another attempt to store the response may succeed."""

    batch: Batch
    is_settled: bool = True


class Endings:
    """Ends turns. One instance serves all of a process."""

    def __init__(self, store: ResponseStore) -> None:
        self._store = store

    async def end(self, begun: Begun, fold: Fold, batch: Batch) -> Ended:
        """The terminal batch, once its record is safe; a failure in its place when it cannot be made safe."""
        try:
            await self.commit(begun, batch, final_of(batch))
        except AntiphonError as error:
            log.error("response %s could not be stored: %s", begun.response_id, error)
            return Ended(failure(fold, error), is_settled=not isinstance(error, (Unavailable, Timeout)))
        return Ended(batch)

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
        for attempt in range(1, COMMIT_TRIES + 1):
            try:
                await self._store.commit_turn(begun.tenant, commit)
                return
            except (Unavailable, Timeout):
                # It may have happened all the same: committing the same record again is harmless.
                if attempt == COMMIT_TRIES:
                    raise


def failure(fold: Fold, error: AntiphonError) -> Batch:
    """The end of a stream that broke: the `error` event, then response.failed with everything there was."""
    code, message = "server_error", error.message
    ended = response.failed(fold.response(), code=code, message=message)
    first = fold.next_sequence
    failed: Object = {"type": events.FAILED, "sequence_number": first + 1, "response": ended}
    frames = events.encode(events.error_event(first, code=code, message=message)) + events.encode(failed)
    return Batch(first, 2, frames, _final(Status.FAILED, ended, error.reason))


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


def _final(status: Status, ended: Object, reason: str | None = None) -> Final:
    body, output_items = response.split(ended)
    return Final(status=status, body=body, output_items=output_items, error_reason=reason)
