"""Forks: new sessions whose head is an existing response. Nothing is copied.

source                     head of the new session
a session                  the session's head, even if it was deleted, until it expires
a response                 that response, which must be readable, and have ended
a session and a response   that response, which must also have been made in the session or be its head
"""

from __future__ import annotations

from antiphon_core.errors import AlreadyExists, NotFound, ResponseNotFound, SessionLocked
from antiphon_core.ids import tree_tag
from antiphon_core.ports.checks import invalid
from antiphon_core.ports.lineage import Fork, ForkSource
from antiphon_core.ports.store import Session
from antiphon_store.decisions import leases, records, turns
from antiphon_store.rows.model import Condition, Index, Kind, Row
from antiphon_store.rows.view import Finish, View, answer, nothing


def fork(view: View, source: ForkSource, new_session_id: str) -> Finish[Fork]:
    """Makes the new session. A repeated fork returns the first result, even if either session has changed since.

    ResponseNotFound, PreviousResponseNotReady, NotFound, InvalidRequest, AlreadyExists, SessionLocked."""
    origin = [source.session_id, source.up_to_response_id]
    is_new = view.test(Kind.SESSION, new_session_id, Condition.IS, "head", None)
    existing = None if is_new else _find_session(view, view.need(Kind.SESSION, new_session_id))
    if existing is not None and existing.fields.get("source", [None])[:2] == origin:
        return answer(Fork(new_session_id, existing.fields["source"][2]))
    head_id = _source_head(view, source)
    _require_kinship(new_session_id, head_id)
    made = Fork(new_session_id, head_id)
    former = living_head(view, existing)
    if former == head_id:
        return answer(made)
    if former is not None:
        raise AlreadyExists.of(new_session_id)
    if not view.test(Kind.SESSION, new_session_id, Condition.BEHIND, "lease_until"):
        raise SessionLocked.of(new_session_id)
    view.set(Kind.SESSION, new_session_id, head=head_id, source=[*origin, head_id])
    return answer(made)


def describe(view: View, session_id: str) -> Finish[Session]:
    """Reads the current state of a session."""
    session = view.need(Kind.SESSION, session_id)
    head_id = living_head(view, session)
    lease = leases.lease_of(session_id, session) if session and leases.is_leased(session, view.now_ms) else None
    last_fence = leases.last_token(_find_session(view, session))
    return answer(Session(session_id, head_id, last_fence, lease))


def living_head(view: View, session: Row | None) -> str | None:
    """The response that a turn in the session continues: its head, even if it was deleted, until it expires."""
    head_id: str | None = session.fields.get("head") if session is not None else None
    if head_id is None or view.need(Kind.NODE, head_id) is None:
        return None
    return head_id if view.test(Kind.NODE, head_id, Condition.AHEAD, "expires") else None


def _find_session(view: View, session: Row | None) -> Row | None:
    """The session; None if it is forgotten, which means that a sweep may have deleted it."""
    ends_at = leases.forgettable_at(session) if session is not None else None
    if ends_at is None or ends_at > view.now_ms or living_head(view, session) is not None:
        return session
    return None


def _source_head(view: View, source: ForkSource) -> str:
    """The response that becomes the head of the new session."""
    response_id = source.up_to_response_id
    if response_id is None:
        head_id = living_head(view, view.need(Kind.SESSION, source.session_id or ""))
        if head_id is None:
            raise NotFound(f"Session '{source.session_id}' has no response to fork.", field="session_id")
        return head_id
    if not records.is_readable(view, response_id):
        raise ResponseNotFound.of(response_id)
    turns.require_ended(view, response_id, field="up_to_response_id")
    if source.session_id is not None:
        _require_made_in(view, response_id, source.session_id)
    return response_id


def _require_made_in(view: View, response_id: str, session_id: str) -> None:
    if view.test(Kind.NODE, response_id, Condition.IS, "session", session_id):
        return
    if living_head(view, view.need(Kind.SESSION, session_id)) != response_id:
        text = f"'{response_id}' was not made in session '{session_id}'. Name it alone to fork it anyway."
        raise invalid("up_to_response_id", text)


def _require_kinship(session_id: str, head_id: str) -> None:
    tag = tree_tag(session_id)
    if tag is not None and tag != tree_tag(head_id):
        text = "'new_session_id' belongs to another tree than the response that it would begin from: their tags differ."
        raise invalid("new_session_id", text)


def require_unused(view: View, session_id: str) -> None:
    """Checks that a session has neither a head nor a lease in the tree of its name. AlreadyExists, SessionLocked."""
    session = view.need(Kind.SESSION, session_id)
    if living_head(view, session) is not None:
        raise AlreadyExists.of(session_id)
    if leases.is_leased(session, view.now_ms):
        raise SessionLocked.of(session_id)


def undo(view: View, fork: Fork) -> Finish[None]:
    """Undoes a fork whose new session was never used."""
    session = view.need(Kind.SESSION, fork.session_id)
    if session is not None and session.fields.get("head") == fork.head_id and not session.fields.get("fence"):
        view.delete(Kind.SESSION, fork.session_id)
        view.file(Index.ENDS, "", f"{Kind.NODE}/{fork.head_id}")
    return nothing
