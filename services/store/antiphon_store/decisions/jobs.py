"""Jobs: leased by one worker at a time until they end.

    queued ──claim──> held by A, attempt n ──settle──> succeeded, failed, cancelled
       ▲                 │
       └ retry or expiry ┤ attempts used up: failed
                         └ cancellation requested: cancelled

Row JOB: `queue`, `max_attempts`, `retention` (ms), `available` (the time from which on it may be claimed, if it has no
holder), `attempts`, `waits` (attempts that ended as WAITED), `holder`, `lease_until` (0: no holder), `stamp` (when
these times were written), `cancel` (0 or 1), `settled` (attempt, outcome and reason of the last settlement), `ended`
(state, reason, when); the payload is its body.
Its ticket in QUEUE has the time of the next claim to try. A ticket that is due too early does no harm, because a claim
checks the row. So no ticket is filed further ahead than LOOK_MS, and one that is further ahead was filed before the
clock was set back. Leases also expire without a write: `as_of` computes the current state of a job from its row.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from antiphon_core.errors import AlreadyExists, JobNotFound, StaleFence
from antiphon_core.ports.jobs import (
    ATTEMPTS_EXHAUSTED,
    PAYLOAD_DAMAGED,
    Job,
    JobDescription,
    JobDraft,
    JobOutcome,
    JobPulse,
    JobState,
)
from antiphon_core.ports.store import Fence
from antiphon_store.decisions.leases import extend, set_back_ms
from antiphon_store.rows.model import Condition, Get, Index, Kind, Now, Payload, Ref, Row
from antiphon_store.rows.view import Finish, View, answer, nothing

NOBODY = ""
LOOK_MS = 30_000
"""The limit for how far ahead tickets are filed. Until it is due, a delayed job is checked once per LOOK_MS."""

Fields = Mapping[str, Any]


def enqueue(view: View, draft: JobDraft, *, retention_ms: int) -> Finish[Job | None]:
    """Adds a job, and leases it to its holder, if it has one. A repeated call only extends the lease of that holder.
    AlreadyExists."""
    if not view.test(Kind.JOB, draft.id, Condition.ABSENT):
        row = view.need(Kind.JOB, draft.id)
        fields = as_of(row.fields, view.now_ms) if row is not None else None
        if row is not None and fields is not None:
            if (fields["queue"], row.body) != (draft.queue, draft.payload):
                raise AlreadyExists.of(draft.id)
            if draft.holder is None or fields["holder"] != draft.holder:
                return nothing
            _lease(view, draft.id, row.fields, fields, holder=draft.holder, lease_ttl_ms=draft.lease_ttl_ms)
            return _answer_lease(view, draft.id)
    _add(view, draft, retention_ms)
    if draft.holder is None:
        return nothing
    return _answer_lease(view, draft.id)


def claim(
    view: View,
    job_id: str,
    *,
    queue: str,
    holder: str,
    lease_ttl_ms: int,
    only_own: bool = False,
    tells_end: bool = False,
    is_damaged: bool = False,
    taken_until: int = 0,
) -> Finish[Job | None]:
    """Leases a job whose ticket in `queue` is due, or extends the lease that `holder` has. None if the job cannot be
    claimed now: its ticket, which was hidden until `taken_until`, is moved to when it can be, or removed. `only_own`:
    does nothing to a job of another holder. `tells_end`: a job that ended by expiry or damage is returned, without a
    lease. `is_damaged`: the payload cannot be read, so the job ends instead of being leased."""
    row = view.need(Kind.JOB, job_id)
    view.test(Kind.JOB, job_id, Condition.AHEAD, "lease_until")
    fields = as_of(row.fields, view.now_ms) if row is not None else None
    if only_own and (fields is None or fields["holder"] != holder):
        return nothing
    if row is None or fields is None or fields["queue"] != queue or fields["ended"] is not None:
        view.unfile(Index.QUEUE, queue, job_id, taken_until)
        if row is None or fields is None or fields["ended"] is None or row.fields["ended"] is not None:
            return nothing
        _write(view, job_id, row.fields, fields)  # its last lease expired
        return answer(_job_of(job_id, Row(fields)) if tells_end and fields["queue"] == queue else None)
    if fields["holder"] != holder and (fields["holder"] != NOBODY or fields["available"] > view.now_ms):
        _write(view, job_id, row.fields, fields)
        return nothing
    if is_damaged:
        failed = _end_fields(fields, JobState.FAILED, PAYLOAD_DAMAGED, view.now_ms)
        _write(view, job_id, row.fields, failed)
        return answer(_job_of(job_id, Row(failed)) if tells_end else None)
    _lease(view, job_id, row.fields, fields, holder=holder, lease_ttl_ms=lease_ttl_ms)
    return view.answer_from(partial(_job_of, job_id), Get(Ref(Kind.JOB, job_id), Payload.ALL))


def look_later(view: View, job_id: str, queue: str) -> Finish[None]:
    """Moves the ticket of a job that cannot be read now. Does not need the row."""
    view.file(Index.QUEUE, queue, job_id, Now(LOOK_MS))
    return nothing


def end_unreadable(view: View, job_id: str, *, queue: str, due_at: int, retention_ms: int) -> Finish[Job]:
    """Replaces a job whose row cannot be read by one that failed when its ticket was due, and returns it without a
    lease. Does not need the row, so its entry in HOLDER stays: a hint that names no lease."""
    fields = {**_NEW, "queue": queue, "max_attempts": 1, "retention": retention_ms, "available": Now(), "stamp": Now()}
    failed = _end_fields(fields, JobState.FAILED, PAYLOAD_DAMAGED, due_at)
    view.put(Kind.JOB, job_id, failed)
    view.unfile(Index.QUEUE, queue, job_id)
    view.file(Index.ENDS, "", f"{Kind.JOB}/{job_id}", due_at + retention_ms)
    return answer(_job_of(job_id, Row(failed)))


def _lease(view: View, job_id: str, former: Fields, fields: Fields, *, holder: str, lease_ttl_ms: int) -> None:
    """Leases a job to `holder`, or extends its lease. `former` has the stored fields."""
    is_own, queue = fields["holder"] == holder, fields["queue"]
    lease_until = extend(fields, view.now_ms, lease_ttl_ms)
    if former["holder"] not in (NOBODY, holder):  # its lease has expired
        view.unfile(Index.HOLDER, held_key(queue, former["holder"]), job_id)
    attempts = fields["attempts"] + (not is_own)
    changed = {**fields, "attempts": attempts, "holder": holder, "lease_until": lease_until, "stamp": Now()}
    view.set(Kind.JOB, job_id, **_without_version(changed))
    view.file(Index.QUEUE, queue, job_id, Now(min(lease_ttl_ms, LOOK_MS)))
    view.file(Index.HOLDER, held_key(queue, holder), job_id)
    view.file(Index.ENDS, "", f"{Kind.JOB}/{job_id}", Now(lease_ttl_ms + fields["retention"]))


def _answer_lease(view: View, job_id: str) -> Finish[Job | None]:
    """Answers with a job that was leased as it was enqueued, without the payload, which its holder has sent."""
    return view.answer_from(lambda row: _job_of(job_id, Row(row.fields)), Get(Ref(Kind.JOB, job_id)))


def heartbeat(view: View, fence: Fence, *, lease_ttl_ms: int) -> Finish[JobPulse]:
    """Extends a live lease; shortens it only if the clock was set back. JobNotFound, StaleFence."""
    fields = require(view, fence.session_id, by_holder=True)
    _require_held(fields, fence)
    view.set(Kind.JOB, fence.session_id, lease_until=extend(fields, view.now_ms, lease_ttl_ms), stamp=Now())
    written = Get(Ref(Kind.JOB, fence.session_id))
    return view.answer_from(lambda row: JobPulse(bool(row.fields["cancel"]), row.fields["lease_until"]), written)


def settle(view: View, fence: Fence, outcome: JobOutcome, reason: str, *, after_ms: int = 0) -> Finish[str | None]:
    """Ends the attempt; a repeated call changes nothing. Returns the queue if the job waits in it again. JobNotFound,
    StaleFence."""
    job_id = fence.session_id
    fields = require(view, job_id, by_holder=True)
    settlement = [fence.token, outcome.value, reason]
    if fields["settled"] == settlement:
        return _waiting_in(fields)
    _require_held(fields, fence)
    settled = {**fields, "settled": settlement}
    if outcome in (JobOutcome.POSTPONED, JobOutcome.WAITED):
        settled["max_attempts"] += 1
    if outcome is JobOutcome.WAITED:
        settled["waits"] = fields.get("waits", 0) + 1
    if outcome in _ENDS:
        settled = _end_fields(settled, _ENDS[outcome], reason, view.now_ms)
    else:
        settled = _given_back(settled, view.now_ms, after_ms)
    _write(view, job_id, fields, settled)
    return _waiting_in(settled)


def cancel(view: View, job_id: str) -> Finish[bool]:
    """Requests the cancellation, and ends a job without a holder. False: the job has ended otherwise. JobNotFound."""
    fields = require(view, job_id)
    if fields["ended"] is not None:
        return answer(fields["ended"][0] == JobState.CANCELLED.value)
    cancelled = {**fields, "cancel": 1}
    if fields["holder"] == NOBODY:
        cancelled = _end_fields(cancelled, JobState.CANCELLED, "", view.now_ms)
    _write(view, job_id, fields, cancelled)
    return answer(True)


def describe(view: View, job_id: str) -> Finish[JobDescription]:
    """Reads the current state of a job. JobNotFound."""
    fields = require(view, job_id)
    ended = fields["ended"]
    running = JobState.RUNNING if fields["holder"] != NOBODY else JobState.QUEUED
    described = JobDescription(
        id=job_id,
        queue=fields["queue"],
        state=JobState(ended[0]) if ended else running,
        attempts=fields["attempts"],
        max_attempts=fields["max_attempts"],
        cancel_requested=bool(fields["cancel"]),
        reason=ended[1] if ended else "",
    )
    return answer(described)


def require(view: View, job_id: str, *, by_holder: bool = False) -> Fields:
    """The current fields of a job; `by_holder` as in `as_of`. JobNotFound."""
    row = view.need(Kind.JOB, job_id)
    view.test(Kind.JOB, job_id, Condition.AHEAD, "lease_until")  # guards against an expiry before the commit
    fields = as_of(row.fields, view.now_ms, by_holder=by_holder) if row is not None else None
    if fields is None:
        raise JobNotFound.of(job_id)
    return fields


def as_of(fields: Fields, now_ms: int, *, by_holder: bool = False) -> Fields | None:
    """The current fields of a job, after expiries; None if its end is longer ago than its retention.

    If the clock was set back, the age of a lease is unknown. For other claimers the lease has then expired; for its
    holder (`by_holder`) it lives until another one takes the job."""
    back_ms = 0 if by_holder else set_back_ms(fields, now_ms)
    if fields["holder"] == NOBODY:
        fields = {**fields, "available": fields["available"] - back_ms} if back_ms else fields
    elif back_ms:
        fields = _given_back(fields, now_ms)
    elif fields["lease_until"] <= now_ms:
        fields = _given_back(fields, fields["lease_until"])
    ended = fields["ended"]
    return None if ended is not None and ended[2] + fields["retention"] <= now_ms else fields


def forgettable_at(fields: Fields) -> int | None:
    """When the job can be deleted if no operation changes it before; None: never."""
    if fields["holder"] != NOBODY:
        fields = _given_back(fields, fields["lease_until"])
    ended = fields["ended"]
    return ended[2] + fields["retention"] if ended is not None else None


def held_key(queue: str, holder: str) -> str:
    """The key of the index HOLDER."""
    return f"{queue} {holder}"


_NEW = {"attempts": 0, "holder": NOBODY, "lease_until": 0, "cancel": 0, "settled": None, "ended": None}
_ENDS = {
    JobOutcome.SUCCEEDED: JobState.SUCCEEDED,
    JobOutcome.FAILED: JobState.FAILED,
    JobOutcome.CANCELLED: JobState.CANCELLED,
}


def _waiting_in(fields: Fields) -> Finish[str | None]:
    """Returns the queue of a job that can be claimed, now or later; None for another job."""
    return answer(fields["queue"] if fields["ended"] is None and fields["holder"] == NOBODY else None)


def _add(view: View, draft: JobDraft, retention_ms: int) -> None:
    holder, ttl_ms = draft.holder or NOBODY, draft.lease_ttl_ms
    is_held = holder != NOBODY
    lease = {"attempts": 1, "holder": holder, "lease_until": Now(ttl_ms)} if is_held else {}
    fields = {
        "queue": draft.queue,
        "max_attempts": draft.max_attempts,
        "retention": retention_ms,
        "available": Now(draft.run_after_ms),
        "stamp": Now(),
        **_NEW,
        **lease,
    }
    view.put(Kind.JOB, draft.id, fields, body=draft.payload)
    view.file(Index.QUEUE, draft.queue, draft.id, Now(min(ttl_ms if is_held else draft.run_after_ms, LOOK_MS)))
    if is_held:
        view.file(Index.HOLDER, held_key(draft.queue, holder), draft.id)
        view.file(Index.ENDS, "", f"{Kind.JOB}/{draft.id}", Now(ttl_ms + retention_ms))


def _write(view: View, job_id: str, former: Fields, fields: Fields) -> None:
    """Writes the fields of a job if they changed, and moves its index entries. `former` has the stored fields."""
    if fields is not former:
        view.set(Kind.JOB, job_id, **{**_without_version(fields), "stamp": Now()})
    if former["holder"] != NOBODY and fields["holder"] == NOBODY:
        view.unfile(Index.HOLDER, held_key(fields["queue"], former["holder"]), job_id)
    if fields["ended"] is not None:
        view.unfile(Index.QUEUE, fields["queue"], job_id)
        view.file(Index.ENDS, "", f"{Kind.JOB}/{job_id}", fields["ended"][2] + fields["retention"])
    else:
        due_at = fields["lease_until" if fields["holder"] != NOBODY else "available"]
        view.file(Index.QUEUE, fields["queue"], job_id, min(due_at, view.now_ms + LOOK_MS))


def _require_held(fields: Fields, fence: Fence) -> None:
    """StaleFence: the fence is not that of the running attempt."""
    if fields["holder"] == NOBODY or fields["attempts"] != fence.token:
        raise StaleFence.of(fence.session_id, token=fence.token)


def _given_back(fields: Fields, at_ms: int, after_ms: int = 0) -> dict[str, Any]:
    """The fields of a job whose attempt is over: claimable `after_ms` later, or ended if it was cancelled or
    has no attempt left."""
    if fields["cancel"]:
        return _end_fields(fields, JobState.CANCELLED, "", at_ms)
    if fields["attempts"] >= fields["max_attempts"]:
        return _end_fields(fields, JobState.FAILED, ATTEMPTS_EXHAUSTED, at_ms)
    return {**fields, "holder": NOBODY, "lease_until": 0, "available": at_ms + after_ms}


def _end_fields(fields: Fields, state: JobState, reason: str, at_ms: int) -> dict[str, Any]:
    return {**fields, "holder": NOBODY, "lease_until": 0, "ended": [state.value, reason, at_ms]}


def _job_of(job_id: str, row: Row) -> Job:
    fields = row.fields
    return Job(
        id=job_id,
        queue=fields["queue"],
        payload=row.body,
        attempt=fields["attempts"],
        max_attempts=fields["max_attempts"],
        cancel_requested=bool(fields["cancel"]),
        fence=Fence(job_id, fields["attempts"]),
        lease_expires_at_ms=fields["lease_until"],
        tries=fields["attempts"] - fields.get("waits", 0),
    )


def _without_version(fields: Fields) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name != "v"}
