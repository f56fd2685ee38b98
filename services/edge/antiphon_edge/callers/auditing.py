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
from antiphon_edge.callers import authentication
from antiphon_edge.callers.tenancy import caller_of, tenant_of
from antiphon_edge.http.http_errors import Handler, status_of
from antiphon_edge.http.request_ids import CLIENT_CLOSED_REQUEST

SERVICE = "edge"
TURN = "WEBSOCKET response.create"


@web.middleware
async def audit_requests(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Writes the audit line of a request when it is answered, or its client has disconnected."""
    resource = request.match_info.route.resource
    if not audit.is_on() or resource is None or authentication.is_open(request):
        return await handler(request)
    with _audited(request, f"{request.method} {resource.canonical}") as outcome:
        answer = await handler(request)
        outcome.status = answer.status
    return answer


@web.middleware
async def require_audit(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Writes the line of an authenticated request's start. Unavailable: the audit log is required, and not written."""
    resource = request.match_info.route.resource
    if audit.is_required() and resource is not None and not authentication.is_open(request):
        audit.require(_action(request, f"{request.method} {resource.canonical}", audit.STARTED))
    return await handler(request)


@contextmanager
def audited_turn(request: web.Request) -> Iterator[None]:
    """Writes the audit line of one turn over the WebSocket that `request` opened. Unavailable: the audit log is
    required, and the line of the turn's start cannot be written."""
    if not audit.is_on():
        yield
        return
    correlation.note(response_id="")
    with _audited(request, TURN) as outcome:
        audit.require(_action(request, TURN, audit.STARTED))
        yield
        outcome.status = 200


class _Outcome:
    status = CLIENT_CLOSED_REQUEST


@contextmanager
def _audited(request: web.Request, action: str) -> Iterator[_Outcome]:
    outcome = _Outcome()
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
    caller, now = caller_of(request), correlation.current()
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
