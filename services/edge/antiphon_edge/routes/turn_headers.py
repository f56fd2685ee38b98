"""The headers of a request that concern its turn.

    x-antiphon-session   the session or conversation of the turn
    Idempotency-Key      by which a retry of the request is recognised

A session whose name the client chooses begins with its first turn. The id of a conversation has the effect of
`conversation` in the body: the conversation must exist, and the response names it.
"""

from __future__ import annotations

from aiohttp import web

from antiphon_core.errors import InvalidRequest
from antiphon_core.ids import DerivedIds, Ids, is_conversation_id, is_session_id
from antiphon_core.limits import IDEMPOTENCY_KEY_BYTES_MAX
from antiphon_core.request.body import CreateRequest
from antiphon_core.request.rejections import reject_two_histories
from antiphon_edge.operations.parameters import IDEMPOTENCY_KEY, SESSION


def session_id_of(request: web.Request) -> str | None:
    """The session or conversation that the header names. InvalidRequest: it is invalid, or there are two."""
    given = request.headers.getall(SESSION.name, [])
    if not given:
        return None
    if len(given) > 1 or not is_session_id(given[0]):
        raise InvalidRequest(
            f"'{SESSION.name}' must appear once, with 1 to 128 letters, digits, underscores and hyphens.",
            field=SESSION.name,
            code="invalid_value",
        )
    return given[0]


def with_session(body: CreateRequest, session_id: str | None) -> tuple[CreateRequest, str | None]:
    """A request and its session. If the header names a conversation, it becomes `conversation` of the request, and the
    session is None.

    InvalidRequest: header and body continue different conversations or responses."""
    if session_id is None or session_id == body.conversation_id:
        return body, None
    if body.conversation_id is not None:
        raise InvalidRequest(
            f"'conversation' and the header '{SESSION.name}' name different conversations.",
            field="conversation",
            code="mutually_exclusive_parameters",
        )
    if not is_conversation_id(session_id):
        return body, session_id
    reject_two_histories(
        previous_response_id=body.previous_response_id,
        previous_response=body.previous_response,
        conversation=session_id,
    )
    return body.model_copy(update={"conversation": session_id}), None


def reject_stateful_headers(request: web.Request, what: str) -> None:
    """Rejects headers that need stored state, for routes that store nothing. InvalidRequest, which names `what` it
    is."""
    for header in (IDEMPOTENCY_KEY.name, SESSION.name):
        if header in request.headers:
            raise InvalidRequest(
                f"'{header}' is not supported here: {what} are not stored. Use it with /v1/responses.",
                field=header,
                code="unsupported_parameter",
            )


def key_of(request: web.Request) -> str | None:
    """The idempotency key of a request. InvalidRequest: it is empty, too long or not UTF-8, or there are two."""
    given = request.headers.getall(IDEMPOTENCY_KEY.name, [])
    if not given:
        return None
    if len(given) == 1 and 1 <= _utf8_length(given[0]) <= IDEMPOTENCY_KEY_BYTES_MAX:
        return given[0]
    raise InvalidRequest(
        f"'{IDEMPOTENCY_KEY.name}' must appear once, with 1 to {IDEMPOTENCY_KEY_BYTES_MAX} bytes of UTF-8.",
        field=IDEMPOTENCY_KEY.name,
        code="invalid_value",
    )


def ids_under(key: str | None, ids: Ids, *scope: str) -> Ids:
    """The generator of ids for the objects that a request creates. With a key the ids are derived from key and `scope`,
    so that a retry makes the same ids. The scope must contain the tenant. Derived ids can be guessed, which is no risk:
    an id gives no access to another tenant."""
    return ids if key is None else DerivedIds("\n".join((*scope, key)))


def _utf8_length(key: str) -> int:
    """The size of the key in bytes; 0 if the header is not UTF-8: aiohttp decodes such bytes to lone surrogates."""
    try:
        return len(key.encode())
    except UnicodeEncodeError:
        return 0
