"""What scripts refuse, by name: the one table from a refusal to the error that a caller gets.

A refusal is the name and its facts, as the script knows them. What only the caller's side knows, the session of a
token, comes with the call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from antiphon_core.errors import (
    AlreadyExists,
    AntiphonError,
    ChainTooLong,
    ConversationNotFound,
    IdempotencyMismatch,
    InternalError,
    InvalidRequest,
    JobNotFound,
    LogClosed,
    LogNotFound,
    PositionMismatch,
    PreviousResponseNotFound,
    PreviousResponseNotReady,
    ResponseNotFound,
    SessionLocked,
    StaleFence,
    StatusMismatch,
    StoreUnavailable,
    VersionMismatch,
)
from antiphon_store.backends.bounds import require_room

Answer = Sequence[Any]

_Build = Callable[..., AntiphonError]


def accepted(answer: Answer, *, session_id: str = "") -> Answer:
    """What comes after `ok`; raises what was refused instead. `session_id`: whose lease the call was about."""
    name, *rest = answer
    if name == b"ok":
        return rest
    build = REFUSALS.get(name.decode())
    if build is None:
        return _unknown(name)
    facts = [fact.decode() if isinstance(fact, bytes) else str(fact) for fact in rest]
    raise build(session_id, *facts)


def _unknown(name: bytes) -> Answer:
    raise InternalError(f"A script refused with a name that is not known: {name!r}.")


def _parent_changes(_session_id: str, response_id: str) -> AntiphonError:
    return InvalidRequest(
        f"'{response_id}' continues another response; the parent of a stored response cannot change.",
        field="record.parent_id",
    )


def _session_is_full(_session: str, session_id: str, responses: str, most: str) -> AntiphonError:
    try:
        require_room(session_id, int(responses), int(most))
    except AntiphonError as refusal:
        return refusal
    raise InternalError(f"A script refused a response in session '{session_id}', which has room.")


REFUSALS: dict[str, _Build] = {
    "response_not_found": lambda _session, id_: ResponseNotFound.of(id_),
    "previous_response_not_found": lambda _session, id_: PreviousResponseNotFound.of(id_),
    "previous_response_not_ready": lambda _session, id_, status: PreviousResponseNotReady.of(id_, status=status),
    "already_exists": lambda _session, id_: AlreadyExists.of(id_),
    "version_mismatch": lambda _session, id_, expected, actual: VersionMismatch.of(
        id_, expected=int(expected), actual=int(actual)
    ),
    "status_mismatch": lambda _session, id_, actual: StatusMismatch.of(id_, actual=actual),
    "parent_changes": _parent_changes,
    "stale_fence": lambda _session, id_, token: StaleFence.of(id_, token=int(token)),
    "log_not_found": lambda _session, id_: LogNotFound.of(id_),
    "log_closed": lambda _session, id_: LogClosed.of(id_),
    "position_mismatch": lambda _session, id_, expected, actual: PositionMismatch.of(
        id_, expected=int(expected), actual=int(actual)
    ),
    "session_locked": SessionLocked.of,
    "conversation_not_found": lambda _session, id_: ConversationNotFound.of(id_),
    "idempotency_mismatch": lambda _session, key: IdempotencyMismatch.of(key),
    "job_not_found": lambda _session, id_: JobNotFound.of(id_),
    "session_is_full": _session_is_full,
    "much_to_sweep": lambda _session, id_: StoreUnavailable(f"What expired below '{id_}' has to be swept first."),
    "too_many_responses": lambda _session, id_, limit: ChainTooLong.of(id_, limit=f"{limit} responses"),
    "too_many_bytes": lambda _session, id_, limit: ChainTooLong.of(id_, limit=f"{limit} bytes"),
}
