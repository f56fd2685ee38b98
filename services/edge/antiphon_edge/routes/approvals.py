"""GET /v1/approvals: the calls of a tenant that wait for a person's answer, in pages."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from aiohttp import web

from antiphon_core.errors import DataDamaged
from antiphon_core.jsons import Object
from antiphon_core.ports.approvals import Approvals
from antiphon_core.ports.store import Approval
from antiphon_edge.callers.authentication import tenant_of
from antiphon_edge.operations.routing import serves
from antiphon_edge.routes import answers, queries
from antiphon_edge.tools.approvals import AskedCall


class ApprovalRoutes:
    """The handler."""

    def __init__(self, store: Approvals) -> None:
        self._store = store

    @serves("listApprovals")
    async def page(self, request: web.Request) -> web.Response:
        """A page of open approvals, by the time at which they were asked for."""
        page = await self._store.list_approvals(
            tenant_of(request),
            cursor=request.query.get("cursor"),
            limit=queries.limit(request),
            order=queries.order(request),
        )
        return answers.json(
            {
                "object": "list",
                "data": _readable(page.approvals),
                "next_cursor": page.next_cursor,
                "has_more": page.next_cursor is not None,
            }
        )


def _readable(page: Iterable[Approval]) -> list[Object]:
    """The approvals of a page as JSON. Damaged ones are reported in the log, and left out: they must not hide the
    others."""
    read = list[Object]()
    for each in page:
        with suppress(DataDamaged):
            read.append(_approval_json(each))
    return read


def _approval_json(stored: Approval) -> Object:
    call = AskedCall.read(stored)
    return {
        "id": stored.id,
        "object": "approval",
        "created_at": stored.created_at_ms // 1000,
        "response_id": stored.response_id,
        "server_label": call.label,
        "name": call.name,
        "arguments": call.arguments,
    }
