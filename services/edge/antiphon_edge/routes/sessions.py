"""`x-antiphon-session`: the header that names what a turn continues besides its body.

A name of a client's own is a session, which begins with its first turn. The id of a conversation says the same as
`conversation` in the body, and goes through the same door: it must have been made, and the response tells it.
"""

from __future__ import annotations

from aiohttp import web

from antiphon_core.errors import InvalidRequest
from antiphon_core.ids import is_conversation_id, is_session_id
from antiphon_core.request.body import CreateRequest
from antiphon_core.request.previous import reject_two_histories
from antiphon_edge.routes import idempotency_keys

SESSION_HEADER = "x-antiphon-session"


def session_id_of(request: web.Request) -> str | None:
    """The session that a request names besides its body. InvalidRequest: it cannot be one, or there are two."""
    given = request.headers.getall(SESSION_HEADER, [])
    if not given:
        return None
    if len(given) > 1 or not is_session_id(given[0]):
        raise InvalidRequest(
            f"'{SESSION_HEADER}' must be there once, with 1 to 128 letters, digits, underscores and hyphens.",
            field=SESSION_HEADER,
            code="invalid_value",
        )
    return given[0]


def placed(asked: CreateRequest, session_id: str | None) -> tuple[CreateRequest, str | None]:
    """A request and its session, with what the header said of a conversation said by the request itself.

    InvalidRequest: the two name different things to be continued."""
    if session_id is None or session_id == asked.conversation_id:
        return asked, None
    if asked.conversation_id is not None:
        raise InvalidRequest(
            f"'conversation' and the header '{SESSION_HEADER}' name different conversations.",
            field="conversation",
            code="mutually_exclusive_parameters",
        )
    if not is_conversation_id(session_id):
        return asked, session_id
    reject_two_histories(
        previous_response_id=asked.previous_response_id,
        previous_response=asked.previous_response,
        conversation=session_id,
    )
    return asked.model_copy(update={"conversation": session_id}), None


def refuse_memory(request: web.Request, what: str) -> None:
    """For paths that keep nothing of `what` they make. InvalidRequest: a header asks for what has to be remembered."""
    for header in (idempotency_keys.HEADER, SESSION_HEADER):
        if header in request.headers:
            raise InvalidRequest(
                f"'{header}' is not supported here: {what} are not kept. /v1/responses takes it.",
                field=header,
                code="unsupported_parameter",
            )
