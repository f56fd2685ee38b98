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
from dataclasses import dataclass

from aiohttp import web

from antiphon_core import audit
from antiphon_edge.callers import auditing, authentication
from antiphon_edge.callers.authentication import Authenticator
from antiphon_edge.http import encodings, pages, request_ids
from antiphon_edge.http.cors import Cors
from antiphon_edge.http.http_errors import Handler
from antiphon_edge.operations.routing import operation_of
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
            operation, resource = operation_of(request), request.match_info.route.resource
            is_open = operation is not None and (operation.access is Access.OPEN or operation.access in self.opened)
            if resource is None:
                return await self._serve(request, handler, operation)
            request[request_ids.ROUTE] = resource.canonical
            if is_open or not audit.is_on():
                return await self._serve(request, handler, operation, is_open=is_open)
            action = f"{request.method} {resource.canonical}"
            with auditing.audit_request(request, action) as outcome:
                answer = await self._serve(request, handler, operation, action=action)
                outcome.status = answer.status
            return answer

        return check  # type: ignore[return-value]

    async def _serve(
        self,
        request: web.Request,
        handler: Handler,
        operation: Operation | None,
        *,
        is_open: bool = False,
        action: str | None = None,
    ) -> web.StreamResponse:
        """The answer of the handler, or of the check that rejects the request. `action` is that of the audit log."""
        answer = self._answer_to_page(request)
        if answer is not None:
            return answer
        if not is_open:
            authentication.authenticate(request, self.authenticator)
        if action is not None:
            auditing.require_start(request, action)
        if request.can_read_body and not encodings.is_readable(request):
            return encodings.unreadable()
        if is_open or (operation is not None and operation.cancels):
            return await handler(request)
        return await admission.admit(request, handler, generates=operation is not None and operation.generates)

    def _answer_to_page(self, request: web.Request) -> web.Response | None:
        """The answer to a preflight request, or to a page that may not call the server."""
        preflight = self.cors.preflight(request) if self.cors is not None else None
        if preflight is not None or self.own_pages is None:
            return preflight
        return pages.rejection_of(request, self.own_pages.origins, is_local=self.own_pages.is_local)
