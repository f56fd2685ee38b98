"""The checks that every request passes before its handler, in this order:

    pages            preflights of CORS are answered; pages of other hosts are rejected (http/cors.py, http/pages.py)
    authentication   sets the tenant and the caller (callers/authentication.py)
    audit            the line of the start is written, where the audit log is required (callers/auditing.py)
    encoding         a body in an unknown encoding is rejected (http/encodings.py)
    admission        rate limits of the tenant, load of the process (quotas/admission.py)

One middleware runs all of them. A request that one of them rejects has its route in metrics, and its line in the audit
log, as one that is served.
"""

from __future__ import annotations

from collections.abc import Collection
from collections.abc import Set as AbstractSet
from contextlib import nullcontext
from dataclasses import dataclass

from aiohttp import web
from aiohttp.hdrs import CONTENT_ENCODING

from antiphon_core import audit
from antiphon_edge.callers import auditing, authentication
from antiphon_edge.callers.authentication import Authenticator
from antiphon_edge.http import encodings, pages, request_ids
from antiphon_edge.http.cors import Cors
from antiphon_edge.http.http_errors import Handler
from antiphon_edge.operations.table import Access, Operation
from antiphon_edge.quotas import admission


@dataclass(frozen=True, slots=True)
class OwnPages:
    """The rules for web pages, for a server without authentication. `origins` are the pages that may call it;
    `is_local`: it listens on loopback."""

    origins: Collection[str] = ()
    is_local: bool = False


@dataclass(frozen=True, slots=True)
class AccessChecks:
    """The checks of one application."""

    authenticator: Authenticator
    opened: AbstractSet[Access] = frozenset()
    """The operations that need no authentication, besides those that are always open."""
    cors: Cors | None = None
    own_pages: OwnPages | None = None

    def middleware(self) -> Handler:
        @web.middleware
        async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
            resource = request.match_info.route.resource
            operation: Operation | None = getattr(request.match_info.handler, "operation", None)
            is_open = operation is not None and (operation.access is Access.OPEN or operation.access in self.opened)
            if resource is not None:
                request[request_ids.ROUTE] = resource.canonical
            is_audited = resource is not None and not is_open and audit.is_on()
            action = f"{request.method} {request[request_ids.ROUTE]}" if is_audited else None
            with auditing.audit_request(request, action) if action else nullcontext(auditing.Outcome()) as outcome:
                answer: web.StreamResponse | None = self._rejection_of(request, is_open=is_open, action=action)
                if answer is None and (is_open or (operation is not None and operation.cancels)):
                    answer = await handler(request)
                elif answer is None:
                    generates = operation is not None and operation.generates
                    answer = await admission.admit(request, handler, generates=generates)
                outcome.status = answer.status
            return answer

        return check  # type: ignore[return-value]

    def _rejection_of(self, request: web.Request, *, is_open: bool, action: str | None) -> web.Response | None:
        """The answer of the first check that a request does not pass; None if it passes all checks before admission.
        `action` is that of the audit log."""
        if self.cors is not None and (preflight := self.cors.preflight(request)) is not None:
            return preflight
        if self.own_pages is not None:
            own = self.own_pages
            if (rejection := pages.rejection_of(request, own.origins, is_local=own.is_local)) is not None:
                return rejection
        if not is_open:
            authentication.authenticate(request, self.authenticator)
        if action is not None:
            auditing.require_start(request, action)
        if CONTENT_ENCODING in request.headers and request.can_read_body and not encodings.is_readable(request):
            return encodings.unreadable()
        return None
