"""GET /v1/responses without an upgrade to a WebSocket: lists the responses of a session or conversation, in pages."""

from __future__ import annotations

from aiohttp import web

from antiphon_core.errors import InvalidRequest
from antiphon_core.ids import is_conversation_id, is_session_id
from antiphon_core.jsons import Object, dumps, with_member
from antiphon_core.ports.conversations import ADDED_ITEMS
from antiphon_core.ports.full_store import FullStore
from antiphon_core.ports.store import Record
from antiphon_edge import stored_content
from antiphon_edge.callers.authentication import tenant_of
from antiphon_edge.routes import answers, queries

_NAMES = ("session", "conversation")


def is_list_request(request: web.Request) -> bool:
    """Whether a request names a session or conversation to list."""
    return any(name in request.query for name in _NAMES)


class ResponseList:
    """The handler."""

    def __init__(self, store: FullStore) -> None:
        self._store = store

    async def page(self, request: web.Request) -> web.Response:
        """A page of readable responses by creation time; empty for an unknown session. ConversationNotFound."""
        tenant, session_id = tenant_of(request), _session_id(request)
        if is_conversation_id(session_id):
            await self._store.get_conversation(tenant, session_id)
        page = await self._store.list_responses(
            tenant,
            session_id,
            cursor=request.query.get("cursor"),
            limit=queries.limit(request),
            order=queries.order(request),
        )
        data = b",".join(stored_content.response_json(record) for record in page.records if _is_response(record))
        envelope: Object = {"object": "list", "next_cursor": page.next_cursor, "has_more": page.next_cursor is not None}
        return answers.json(with_member(dumps(envelope), "data", b"[" + data + b"]"))


def _session_id(request: web.Request) -> str:
    """The session or conversation to list. InvalidRequest: more than one is given, or its id is invalid."""
    given = [(name, value) for name in _NAMES for value in request.query.getall(name, [])]
    if len(given) > 1:
        raise InvalidRequest(
            "'session' and 'conversation' exclude each other, and each may appear once.",
            field="conversation",
            code="mutually_exclusive_parameters",
        )
    ((name, value),) = given
    if not is_session_id(value) or (name == "conversation" and not is_conversation_id(value)):
        raise InvalidRequest(f"Invalid value for '{name}': it is no {name} id.", field=name, code="invalid_value")
    return value


def _is_response(record: Record) -> bool:
    """Whether a record is a response. The list has records of items that were added to a conversation by hand, too."""
    return ADDED_ITEMS.encode() not in record.body or stored_content.body_of(record).get("object") != ADDED_ITEMS
