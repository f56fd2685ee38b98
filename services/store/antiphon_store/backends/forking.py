"""What a fork may do, given what is stored, apart from any engine.

    source                     the new session begins from
    a session                  its head, as a turn in it would: deleted or not, until its time is over
    a response                 that response, which must be readable, and have ended
    a session and a response   the response, which must have been made in the session or be its head

Membership is a fact of the record, not a walk along the chain: a fork costs the same whatever the length.
"""

from __future__ import annotations

from antiphon_core.errors import AlreadyExists, InvalidRequest, NotFound, ResponseNotFound, SessionLocked
from antiphon_core.ids import tree_tag
from antiphon_core.ports.lineage import ForkSource
from antiphon_core.ports.store import Status
from antiphon_store.backends.leases import SessionState
from antiphon_store.backends.status import require_ended


def head_of(source: ForkSource, *, session_head_id: str | None, status: Status | None, made_in: str | None) -> str:
    """The response that a fork of `source` begins from.

    `session_head_id` is the current head of the source session, if one is named; `status` and `made_in` (its session)
    are facts of the response, if one is named and can be read. NotFound, ResponseNotFound, PreviousResponseNotReady,
    InvalidRequest."""
    response_id = source.up_to_response_id
    if response_id is None:
        if session_head_id is None:
            raise NotFound(f"Session '{source.session_id}' has no response to fork.", field="session_id")
        return session_head_id
    if status is None:
        raise ResponseNotFound.of(response_id)
    require_ended(response_id, status, field="up_to_response_id")
    if source.session_id not in (None, made_in) and session_head_id != response_id:
        raise InvalidRequest(
            f"'{response_id}' was not made in session '{source.session_id}'. Name it alone to fork it anyway.",
            field="up_to_response_id",
            code="invalid_value",
        )
    return response_id


def require_kinship(session_id: str, head_id: str) -> None:
    """InvalidRequest when the new session's id has the tag of another tree than the response it begins from."""
    tag = tree_tag(session_id)
    if tag is not None and tag != tree_tag(head_id):
        raise InvalidRequest(
            "'new_session_id' belongs to another tree than the response that it would begin from: their tags differ.",
            field="new_session_id",
            code="invalid_value",
        )


def require_free(session_id: str, state: SessionState, *, head_id: str | None, now_ms: int) -> None:
    """That a session can begin as a fork. `head_id` is its current head. AlreadyExists, SessionLocked."""
    if head_id is not None:
        raise AlreadyExists.of(session_id)
    if state.is_held(now_ms):
        raise SessionLocked.of(session_id)
