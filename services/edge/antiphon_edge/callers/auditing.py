"""Audit lines of HTTP: one for each request that needs authentication, and one for each turn over a WebSocket.

Where the audit log is required, there is a line for the start of each, too, once the caller is authenticated.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import web

from antiphon_core import audit
from antiphon_core.audit import Action
from antiphon_core.telemetry import correlation
from antiphon_edge.callers.authentication import CALLER, tenant_of
from antiphon_edge.http.http_errors import status_of
from antiphon_edge.http.request_ids import CLIENT_CLOSED_REQUEST

SERVICE = "edge"
TURN = "WEBSOCKET response.create"


def require_start(request: web.Request, action: str) -> None:
    """Writes the line of an authenticated request's start. Unavailable: the audit log is required, and not written."""
    _note_caller(request)
    if audit.is_required():
        audit.require(_action(request, action, audit.STARTED))


@contextmanager
def audited_turn(request: web.Request) -> Iterator[None]:
    """Writes the audit line of one turn over the WebSocket that `request` opened. Unavailable: the audit log is
    required, and the line of the turn's start cannot be written."""
    if not audit.is_on():
        yield
        return
    correlation.note(response_id="")
    _note_caller(request)
    with audit_request(request, TURN) as outcome:
        audit.require(_action(request, TURN, audit.STARTED))
        yield
        outcome.status = 200


def _note_caller(request: web.Request) -> None:
    """Notes the caller for the lines of what the request does, such as an answer to an approval request."""
    audit.caller_now.set((request.get(CALLER, ""), request.remote or ""))


class Outcome:
    """The status with which an audited request is answered."""

    status = CLIENT_CLOSED_REQUEST


@contextmanager
def audit_request(request: web.Request, action: str) -> Iterator[Outcome]:
    """Writes the audit line of a request when the block ends: when it is answered, or its client has disconnected."""
    outcome = Outcome()
    try:
        yield outcome
    except ConnectionError:
        raise  # the client has disconnected
    except Exception as error:
        outcome.status = status_of(error)
        raise
    finally:
        audit.note(_action(request, action, str(outcome.status)))


def _action(request: web.Request, action: str, result: str) -> Action:
    caller, now = request.get(CALLER, ""), correlation.current()  # without a caller if authentication failed
    ids = [*request.match_info.values(), *([now.response_id] if now.response_id else [])]
    return Action(
        service=SERVICE,
        caller=caller,
        peer=request.remote or "",
        tenant=tenant_of(request) if caller else "",
        action=action,
        ids=list(dict.fromkeys(ids)),
        result=result,
        request_id=now.request_id,
    )
