"""Terminal batches that the edge makes itself: of turns that failed, and of cancelled ones.

They have all output so far, so a large one is made off the event loop: one of 8 MB, with log probabilities, took 0.4 s.
"""

from __future__ import annotations

from functools import partial

from antiphon_core import events, offload, response
from antiphon_core.errors import AntiphonError, InvalidRequest, Timeout, TooLarge, Unavailable
from antiphon_core.fold import Fold
from antiphon_core.jsons import Object, loads
from antiphon_core.ports.store import Status
from antiphon_core.ports.translator import Batch, Final

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


def failed_before_output(final: Final) -> bool:
    """Whether a turn failed with a transient error before its model generated anything."""
    if final.status is not Status.FAILED:
        return False
    ended: Object = loads(final.body)
    usage = ended["usage"]  # output items may hold a forced beginning, which no model generated
    has_output = usage["output_tokens"] > 0 if usage else bool(loads(final.output_items))
    return not has_output and isinstance(response.error_of(ended), PASSING)


def final_of(batch: Batch) -> Final:
    """The finished response in a terminal batch."""
    if batch.final is None:
        raise AssertionError("only a terminal batch ends a turn")
    return batch.final


def _final(status: Status, ended: Object) -> Final:
    body, output_items = response.split(ended)
    return Final(status=status, body=body, output_items=output_items)
