"""Leases of sessions, and the fences that prove a lease of a session or of a job.

    free ──acquire──> held by A, fence n ──release, commit or expiry──> free, fence n
                       ├─ A acquires again: fence n, a later expiry
                       └─ B acquires: SessionLocked

Row SESSION: `head` (the last response committed in it), `fence` (the last token granted), `holder`, `lease_until`
(0: released), `stamp` (when the lease was taken or renewed last), `removed` (ids of items that were removed from its
conversation), `source` (of the fork that made it), `responses_until` (the expiry that a sweep has yet to write into the
responses of its deleted conversation), `ended` (when that conversation was deleted), `is_over` (whether the session had
a conversation, and has none now). Each grant to a new holder has a higher token. A fence is valid only while its lease
lives.

A sweep deletes the row of a session that is over or was never leased, and has no head. Tokens still grow if the session
gets a conversation again: a new conversation raises `fence` to the time in milliseconds, which is above all tokens that
were granted since an earlier one. The row is kept for FENCE_KEPT_MS after the last grant, because the clock may be set
back (docs/adr/0148-sessions-of-deleted-conversations-are-reclaimed.md).

If the clock was set back since the last renewal, the age of the lease is unknown: another
holder may take it at once, and the present holder keeps it until then.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from antiphon_core.errors import SessionLocked, StaleFence
from antiphon_core.ids import is_response_id
from antiphon_core.ports.store import Fence, Lease
from antiphon_store.rows.model import Add, Condition, Get, Index, Kind, Now, Ref, Row
from antiphon_store.rows.view import Finish, View, answer

NOBODY = ""
FENCE_KEPT_MS = 24 * 3600 * 1000
CLOCK_STEP_MS = 1_000
"""The tolerance for stamps in the future: after a failover, the new server's clock differs by less."""


def acquire(view: View, session_id: str, *, holder: str, ttl_ms: int) -> Finish[Lease]:
    """Takes the lease with the next token, or extends the lease that `holder` has. SessionLocked: another has it."""
    take(view, session_id, holder=holder, ttl_ms=ttl_ms)
    return view.answer_from(partial(lease_of, session_id), Get(Ref(Kind.SESSION, session_id)))


def take(view: View, session_id: str, *, holder: str, ttl_ms: int) -> None:
    """Does the writes of `acquire`, without reading the lease back. SessionLocked: another has it."""
    if not view.test(Kind.SESSION, session_id, Condition.BEHIND, "lease_until"):
        session = view.need(Kind.SESSION, session_id)
        if session is not None and session.fields["holder"] == holder:
            _extend(view, session, session_id, ttl_ms)
            return
        if is_leased(session, view.now_ms):
            raise SessionLocked.of(session_id)
    view.set(Kind.SESSION, session_id, fence=Add(1), holder=holder, lease_until=Now(ttl_ms), stamp=Now())


def renew(view: View, fence: Fence, *, ttl_ms: int) -> Finish[Lease]:
    """Extends a live lease; shortens it only if the clock was set back. StaleFence: the lease does not live."""
    session = view.need(Kind.SESSION, fence.session_id)
    if session is None or not tests_held(view, fence):
        raise StaleFence.of(fence.session_id, token=fence.token)
    _extend(view, session, fence.session_id, ttl_ms)
    return view.answer_from(partial(lease_of, fence.session_id), Get(Ref(Kind.SESSION, fence.session_id)))


def release(view: View, fence: Fence) -> Finish[bool]:
    """Releases a lease. False: the fence has no live lease."""
    held = tests_held(view, fence)
    if held:
        give_back(view, fence.session_id)
    return answer(held)


def check_later(view: View, session_id: str) -> None:
    """Makes a session a candidate for cleanup."""
    view.file(Index.ENDS, "", f"{Kind.SESSION}/{session_id}")


def give_back(view: View, session_id: str, **fields: Any) -> None:
    """Ends the lease of a session, and sets `fields` in the same write."""
    view.set(Kind.SESSION, session_id, holder=NOBODY, lease_until=0, **fields)


def require_fence(view: View, fence: Fence) -> None:
    """Requires a live lease of the job with the fence's id or, if there is no such job, of the session. StaleFence."""
    job_id = fence.session_id
    if is_response_id(job_id):
        runs = view.test(Kind.JOB, job_id, Condition.IS, "attempts", fence.token)
        if runs and view.test(Kind.JOB, job_id, Condition.AHEAD, "lease_until"):
            return
        if view.need(Kind.JOB, job_id) is not None:
            raise StaleFence.of(job_id, token=fence.token)
    has_token = view.test(Kind.SESSION, fence.session_id, Condition.IS, "fence", fence.token)
    if not (has_token and view.test(Kind.SESSION, fence.session_id, Condition.AHEAD, "lease_until")):
        raise StaleFence.of(fence.session_id, token=fence.token)


def begin_again(view: View, session_id: str, session: Row | None) -> None:
    """Makes a session that of a new conversation. Its next token will be above those of all earlier conversations with
    its id, unless a turn runs already: that turn keeps its token."""
    last = session.fields.get("fence") or 0 if session is not None else 0
    floor = last if is_leased(session, view.now_ms) else max(last, view.now_ms)
    view.set(Kind.SESSION, session_id, fence=floor, is_over=False)


def forgettable_at(session: Row) -> int | None:
    """When a session without a head and a conversation can be forgotten; None: never, because its tokens must grow."""
    fields = session.fields
    if not last_token(session):
        return 0
    if not fields.get("is_over"):
        return None
    return max(int(fields.get("lease_until") or 0), int(fields.get("stamp", 0)) + FENCE_KEPT_MS)


def last_token(session: Row | None) -> int:
    """The last token that was granted; 0: none. A new conversation sets a fence that is none."""
    fields = session.fields if session is not None else {}
    is_floor = "is_over" in fields and fields.get("stamp") is None
    return 0 if is_floor else fields.get("fence") or 0


def is_leased(session: Row | None, now_ms: int) -> bool:
    """Whether another holder is locked out."""
    if session is None or set_back_ms(session.fields, now_ms):
        return False
    return (session.fields.get("lease_until") or 0) > now_ms


def lease_of(session_id: str, session: Row) -> Lease:
    """The lease of a session that has just been acquired or renewed."""
    fields = session.fields
    return Lease(Fence(session_id, fields["fence"]), fields["holder"], fields["lease_until"])


def set_back_ms(fields: Mapping[str, Any], now_ms: int) -> int:
    """How far the clock was set back since `stamp` was written in these fields; 0 if it was not. All times in them are
    too late by that much: leases of dead holders would live longer, and queued jobs would wait longer."""
    ahead_ms: int = (fields.get("stamp") or 0) - now_ms
    return ahead_ms if ahead_ms > CLOCK_STEP_MS else 0


def tests_held(view: View, fence: Fence) -> bool:
    """Tests that the fence's lease lives."""
    has_token = view.test(Kind.SESSION, fence.session_id, Condition.IS, "fence", fence.token)
    return has_token and view.test(Kind.SESSION, fence.session_id, Condition.AHEAD, "lease_until")


def extend(fields: Mapping[str, Any], now_ms: int, ttl_ms: int) -> int | Now:
    """The new end of a lease with these fields. It becomes earlier only if the clock was set back."""
    ends_at: int = fields["lease_until"]
    return Now(ttl_ms) if now_ms + ttl_ms > ends_at or set_back_ms(fields, now_ms) else ends_at


def _extend(view: View, session: Row, session_id: str, ttl_ms: int) -> None:
    lease_until = extend(session.fields, view.now_ms, ttl_ms)
    view.set(Kind.SESSION, session_id, lease_until=lease_until, stamp=Now())
