"""Ends turns: the record is written before the terminal event is sent, and each turn has one terminal event.

The terminal batches that the edge makes itself, of turns that failed and of cancelled ones, have all output so far. So
a large one is made off the event loop: one of 8 MB, with log probabilities, took 0.4 s.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter

from antiphon_core import events, offload, response
from antiphon_core.errors import (
    AntiphonError,
    Conflict,
    InvalidRequest,
    ResponseNotFound,
    SessionLost,
    StaleFence,
    StoreUnavailable,
    Timeout,
    TooLarge,
    Unavailable,
    for_log,
)
from antiphon_core.fold import Fold
from antiphon_core.jsons import Object, loads
from antiphon_core.ports.event_logs import EventAppend
from antiphon_core.ports.full_store import FullStore
from antiphon_core.ports.store import Fence, LogFrames, Stamp, Status, TurnCommit
from antiphon_core.ports.translator import Batch, Final
from antiphon_core.telemetry import correlation, metrics, remedies
from antiphon_core.unexpected import as_antiphon_error
from antiphon_edge import phases
from antiphon_edge.turns.accepted_turn import AcceptedTurn
from antiphon_edge.turns.lineage_search import RememberedLineages
from antiphon_edge.turns.resent_conversations import key_behind

log = logging.getLogger(__name__)

_ANSWERS = frozenset({Status.COMPLETED, Status.INCOMPLETE})
"""The ends of responses with an answer. Their requests for approvals can be answered."""


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """The end of a turn, as the store knows it and as its receivers get it."""

    batch: Batch
    """The batch that its receivers get."""
    is_settled: bool = True
    """False: nothing is stored, and another attempt to store the response may succeed."""
    unused: AcceptedTurn | None = None
    """The turn whose key, session lease and job are to be given back, because its record does not use them."""


class TurnFinisher:
    """Ends turns. One instance serves all of a process."""

    def __init__(self, store: FullStore, remembered: RememberedLineages | None = None) -> None:
        """`remembered` keeps the lineages of turns that are not stored."""
        self._store = store
        self._remembered = remembered

    async def end(self, accepted: AcceptedTurn, fold: Fold, batch: Batch) -> TurnEnd:
        """Writes the record, and returns the terminal batch; a failure in its place if the record cannot be written."""
        unused, final = None, final_of(batch)
        if accepted.key is not None and failed_before_output(final):
            # The record is written without key and session, so that both stay free for the next request.
            unused, accepted = accepted, replace(accepted, key=None, lease=None)
        try:
            await self.commit(accepted, batch, final)
        except AntiphonError as error:
            log.error("response %s could not be stored: %s", accepted.response_id, error, extra=remedies.CHECK_STORE)
            return await self._end_unstored(accepted, fold, _for_caller(accepted, error))
        return TurnEnd(batch, unused=unused)

    async def session_lost(self, accepted: AcceptedTurn, fold: Fold, error: SessionLost) -> TurnEnd:
        """Ends a turn whose session another turn has leased by now. Writes no record."""
        log.warning("response %s was cut off: %s", accepted.response_id, error)
        return await self._end_unstored(accepted, fold, error)

    async def break_off(self, accepted: AcceptedTurn, fold: Fold, error: Exception) -> Batch:
        """Makes the terminal batch of a turn that failed after its first event."""
        error = as_antiphon_error(
            error, f"response {accepted.response_id}", "The server had an error while generating this response."
        )
        log.warning("response %s was cut off: %s", accepted.response_id, for_log(error))
        return await failure(fold, error)

    async def cancel(self, accepted: AcceptedTurn, fold: Fold) -> None:
        """Writes the record of a turn whose caller went away. Raises when it cannot be written."""
        batch = await cancellation(fold)
        await self.commit(accepted, batch, final_of(batch))

    async def commit(self, accepted: AcceptedTurn, batch: Batch, final: Final) -> None:
        """Writes the record, if the turn is stored, and ends its event log, if it has one. Safe to repeat."""
        if not accepted.is_stored:
            if self._remembered is not None:
                self._remembered.keep(await lineage_key_of(accepted, final), final.lineage)
            return
        started_s, outcome = perf_counter(), "failed"
        try:
            await commit_or_as_root(accepted, partial(self._commit, batch=batch, final=final))
            outcome = "ok"
        except Conflict:
            outcome = "conflict"
            raise
        finally:
            duration_s = perf_counter() - started_s
            metrics.COMMIT.of(outcome).observe(duration_s, correlation.sampled_trace_id())
            phases.note(phases.COMMIT, duration_s)

    async def _end_unstored(self, accepted: AcceptedTurn, fold: Fold, error: AntiphonError) -> TurnEnd:
        batch = await failure(fold, error)
        if isinstance(error, PASSING):
            return TurnEnd(batch, is_settled=False)
        await self._close_log(accepted, batch)
        return TurnEnd(batch, unused=accepted if isinstance(error, SessionLost) else replace(accepted, key=None))

    async def _close_log(self, accepted: AcceptedTurn, batch: Batch) -> None:
        """Ends the log of a response that cannot be stored, so that its readers get the end that its caller gets."""
        if not accepted.has_log:
            return
        end = EventAppend(accepted.response_id, batch.first_sequence, batch.count, batch.frames, terminal=True)
        try:
            await accepted.under_fence(lambda fence: self._store.append_events(accepted.tenant, end, fence=fence))
        except AntiphonError as error:
            log.warning("the event log of %s stays open: %s", accepted.response_id, error.message)

    async def _commit(self, accepted: AcceptedTurn, batch: Batch, final: Final) -> None:
        lease, is_cancelled = accepted.job_lease, final.status is Status.CANCELLED
        ends_job = lease is not None and not is_cancelled  # the job of a cancelled response ends as cancelled
        lineage_key = await lineage_key_of(accepted, final)

        def commit(fence: Fence | None) -> Awaitable[Stamp]:
            written = TurnCommit(
                record=accepted.record(final.status, final.body, final.output_items),
                fence=accepted.fence,
                idempotency_key=accepted.key,
                precondition=replace(accepted.precondition, fence=fence),
                log_frames=LogFrames(batch.first_sequence, batch.frames) if accepted.has_log else None,
                ends_job=ends_job,
                lineage=final.lineage,
                lineage_key=lineage_key,
                approvals=accepted.asks if final.status in _ANSWERS else (),
            )
            return self._store.commit_turn(accepted.tenant, written)

        await accepted.under_fence(commit)
        if ends_job and lease is not None:
            lease.note_end()


async def lineage_key_of(accepted: AcceptedTurn, final: Final) -> bytes:
    """The key under which a client that resends the conversation finds the lineage of the turn; empty for none."""
    if not final.lineage or not accepted.conversation_state:
        return b""
    key_of = partial(key_behind, accepted.conversation_state, final.output_items)
    return await offload.run(key_of, size_bytes=len(final.output_items))


def _for_caller(accepted: AcceptedTurn, error: AntiphonError) -> AntiphonError:
    """Translates the error of a failed commit for the turn's caller, who knows no fields of the record but its session.
    A stale fence may be that of the job: a commit can carry both."""
    if isinstance(error, Timeout):  # the same status as for a store that refuses the connection
        return StoreUnavailable("The store does not answer.")
    session_id = accepted.fence.session_id if accepted.fence is not None else None
    if isinstance(error, StaleFence) and error.facts["session_id"] == session_id:
        return SessionLost.of(session_id)
    if isinstance(error, InvalidRequest) and error.field == "record.output_items":
        return output_too_large()
    if error.field is None or not error.field.startswith("record"):
        return error
    field = "conversation" if error.field == "record.session_id" else None
    return type(error)(error.message, field=field, **error.facts)


async def commit_or_as_root(
    accepted: AcceptedTurn, commit: Callable[[AcceptedTurn], Awaitable[object]]
) -> AcceptedTurn:
    """Commits the turn, and returns it as it was stored. If its parent was deleted, or expired, while it ran, the turn
    becomes a root, the first response of a new chain: it has read its history, which goes before its input."""
    try:
        await commit(accepted)
        return accepted
    except ResponseNotFound as error:
        if accepted.parent_id is None or error.facts.get("id") != accepted.parent_id:
            raise
    log.info("the parent %s is gone: %s is stored as a root", accepted.parent_id, accepted.response_id)
    root = accepted.as_root()
    await commit(root)
    return root


PASSING = (Unavailable, Timeout)
"""Transient errors: the same request may succeed when it is sent again."""


REJECTED = (InvalidRequest, TooLarge)
"""Errors of the store about the content of a record. Another attempt to write the record fails in the same way."""


async def failure(fold: Fold, error: AntiphonError, *, keeps_output: bool = True) -> Batch:
    """The terminal batch of a turn that failed: the `error` event, then response.failed with the output so far.
    `fold` must not be fed meanwhile."""
    make = partial(_failure, fold, error, keeps_output=keeps_output)
    return await offload.run(make, size_bytes=fold.size_bytes)


def _failure(fold: Fold, error: AntiphonError, *, keeps_output: bool) -> Batch:
    ended = response.fail(fold.response() | ({} if keeps_output else {"output": []}), error)
    first = fold.next_sequence
    failed: Object = {"type": events.FAILED, "sequence_number": first + 1, "response": ended}
    frames = events.encode(events.error_event(first, error)) + events.encode(failed)
    return Batch(first, 2, frames, _final(Status.FAILED, ended))


async def unstorable(fold: Fold) -> Batch:
    """The terminal batch of a turn whose output the store rejects: failed, without the output."""
    return await failure(fold, output_too_large(), keeps_output=False)


def output_too_large() -> TooLarge:
    return TooLarge("The output of the response is too large to be stored. With fewer 'top_logprobs' it is smaller.")


async def cancellation(fold: Fold) -> Batch:
    """The terminal batch of a cancelled turn. OpenAI has no event for it, but readers of an event log need one. `fold`
    must not be fed meanwhile."""
    return await offload.run(partial(_cancellation, fold), size_bytes=fold.size_bytes)


def _cancellation(fold: Fold) -> Batch:
    ended = response.cancel(fold.response())
    first = fold.next_sequence
    event: Object = {"type": events.CANCELLED, "sequence_number": first, "response": ended}
    return Batch(first, 1, events.encode(event), _final(Status.CANCELLED, ended))


async def ending(fold: Fold, status: Status, members: Object, lineage: bytes = b"") -> Batch:
    """The terminal batch of a turn that ends between two rounds, with these members besides its output, and the lineage
    of the rounds. `fold` must not be fed meanwhile."""
    return await offload.run(partial(_ending, fold, status, members, lineage), size_bytes=fold.size_bytes)


def _ending(fold: Fold, status: Status, members: Object, lineage: bytes) -> Batch:
    last = fold.response() | {"status": status.value, **members}
    first = fold.next_sequence
    event: Object = {"type": f"response.{status.value}", "sequence_number": first, "response": last}
    return Batch(first, 1, events.encode(event), replace(_final(status, last), lineage=lineage))


def failed_before_output(final: Final) -> bool:
    """Whether a turn failed with a transient error before its model generated anything."""
    if final.status is not Status.FAILED:
        return False
    ended: Object = loads(final.body)
    usage = ended["usage"]  # output items may hold a forced beginning, which no model generated
    has_output = usage["output_tokens"] > 0 if usage else bool(loads(final.output_items))
    return not has_output and isinstance(response.error_of(ended), PASSING)


def has_answer(batch: Batch) -> bool:
    """Whether a terminal batch is that of a response that was not cut off by an error or a cancellation."""
    return final_of(batch).status in _ANSWERS


def final_of(batch: Batch) -> Final:
    """The finished response in a terminal batch."""
    if batch.final is None:
        raise AssertionError("only a terminal batch ends a turn")
    return batch.final


def _final(status: Status, ended: Object) -> Final:
    body, output_items = response.split(ended)
    return Final(status=status, body=body, output_items=output_items)
