"""Trees of responses, and forks of sessions: Antiphon's own addition to the API.

A node has the position of a response in its tree, not its content. The nodes of deleted responses, and of items that
were added to a conversation by hand, have no status. They are listed only if a node below them can be read.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from contextlib import suppress
from functools import partial
from typing import Protocol

from aiohttp import web

from antiphon_core import limits, offload
from antiphon_core.errors import (
    AlreadyExists,
    ChainTooLong,
    InvalidRequest,
    LimitExceeded,
    NotFound,
    ResponseNotFound,
)
from antiphon_core.ids import is_conversation_id, is_response_id, is_session_id
from antiphon_core.jsons import Object, dumps, with_member
from antiphon_core.ports.conversations import ADDED_ITEMS
from antiphon_core.ports.full_store import FullStore
from antiphon_core.ports.lineage import ForkSource, Node, NodePage
from antiphon_core.ports.store import Record
from antiphon_edge import stored_content
from antiphon_edge.callers.authentication import tenant_of
from antiphon_edge.conversation_requests import ForkSession
from antiphon_edge.operations.parameters import IDEMPOTENCY_KEY
from antiphon_edge.operations.routing import serves
from antiphon_edge.quotas.admission import long_work_of
from antiphon_edge.routes import answers, bodies, queries

NODE_BYTES = 200  # of JSON
RECORD_WORK_BYTES = 1_024
"""The work for each record of a chain besides its JSON, as bytes of JSON that take as long: 17 us in edge and store."""

_ONE = "/v1/responses/{id}"


class _ListNodes(Protocol):
    """A method of the store that lists nodes related to a response."""

    async def __call__(self, tenant: str, response_id: str, /, *, cursor: str | None, limit: int) -> NodePage: ...


class TreeRoutes:
    """Handlers over the store."""

    def __init__(self, store: FullStore) -> None:
        self._store = store

    @serves("getTree")
    async def tree(self, request: web.Request) -> web.Response:
        page = await self._store.tree(
            tenant_of(request),
            _response_id(request),
            from_root=queries.flag(request, "from_root"),
            cursor=request.query.get("cursor"),
            max_nodes=queries.limit(request, default=limits.TREE_NODES_DEFAULT, most=limits.TREE_NODES_MAX),
        )
        return await _page(page)

    @serves("listChildren")
    async def children(self, request: web.Request) -> web.Response:
        return await _around(request, self._store.children)

    @serves("listSiblings")
    async def siblings(self, request: web.Request) -> web.Response:
        return await _around(request, self._store.siblings)

    @serves("listLeaves")
    async def leaves(self, request: web.Request) -> web.Response:
        return await _around(request, self._store.leaves)

    @serves("getChain")
    async def chain(self, request: web.Request) -> web.Response:
        tenant, response_id = tenant_of(request), _response_id(request)
        async with long_work_of(request).reading(tenant) as note_bytes:
            try:
                records = await self._store.chain(tenant, response_id)
            except ChainTooLong as error:
                raise _too_long(response_id, error) from error
            # The store's chains contain deleted responses, since later turns still need them. Clients must not see
            # them.
            readable = {record.id for record in await self._store.batch_get(tenant, [record.id for record in records])}
            size_bytes = sum(record.size_bytes for record in records)
            data = await offload.run(partial(_links, records, readable), size_bytes=size_bytes)
            note_bytes(len(data) + RECORD_WORK_BYTES * len(records))
        envelope: Object = {"object": "list", "next_cursor": None, "has_more": False}
        return answers.json(with_member(dumps(envelope), "data", b"[" + data + b"]"))

    @serves("forkSession")
    async def fork(self, request: web.Request) -> web.Response:
        _reject_key(request)
        session_id = _session_id(request)
        body = await bodies.parse_body(request, ForkSession.of, may_be_empty=True)
        if body.up_to_response_id is not None and not is_response_id(body.up_to_response_id):
            raise ResponseNotFound.of(body.up_to_response_id)
        tenant = tenant_of(request)
        metadata = await self._metadata(tenant, session_id)
        source = ForkSource(session_id=session_id, up_to_response_id=body.up_to_response_id)
        fork = await self._store.fork(tenant, source, new_session_id=body.new_session_id)
        if is_conversation_id(fork.session_id):
            with suppress(AlreadyExists):  # a retry: the fork exists, and may have other metadata by now
                await self._store.create_conversation(tenant, conversation_id=fork.session_id, metadata=metadata)
        return answers.json(
            {"id": fork.session_id, "object": "session", "forked_from": session_id, "head_id": fork.head_id}
        )

    async def _metadata(self, tenant: str, session_id: str) -> bytes:
        """The metadata that a fork of the session inherits. ConversationNotFound."""
        if not is_conversation_id(session_id):
            return b"{}"
        return dumps(stored_content.metadata_of(await self._store.get_conversation(tenant, session_id)))


def _reject_key(request: web.Request) -> None:
    """Raises InvalidRequest if a fork has an idempotency key: the name of the fork has its effect."""
    if IDEMPOTENCY_KEY.name in request.headers:
        raise InvalidRequest(
            f"'{IDEMPOTENCY_KEY.name}' is not supported here. A fork with 'new_session_id' can be repeated safely.",
            field=IDEMPOTENCY_KEY.name,
            code="unsupported_parameter",
        )


async def _around(request: web.Request, list_nodes: _ListNodes) -> web.Response:
    """A page of the nodes that `list_nodes` finds for the response of the path."""
    page = await list_nodes(
        tenant_of(request),
        _response_id(request),
        cursor=request.query.get("cursor"),
        limit=queries.limit(request, default=limits.LIST_ITEMS_DEFAULT, most=limits.LIST_ITEMS_MAX),
    )
    return await _page(page)


def _response_id(request: web.Request) -> str:
    response_id = request.match_info["id"]
    if not is_response_id(response_id):
        raise ResponseNotFound.of(response_id)
    return response_id


def _session_id(request: web.Request) -> str:
    session_id = request.match_info["id"]
    if not is_session_id(session_id):
        raise NotFound(f"Session with id '{session_id}' not found.", id=session_id)
    return session_id


async def _page(page: NodePage) -> web.Response:
    def write() -> bytes:
        envelope: Object = {"object": "list", "data": [_node(node) for node in page.nodes]}
        return dumps(envelope | {"next_cursor": page.next_cursor, "has_more": page.next_cursor is not None})

    return answers.json(await offload.run(write, size_bytes=NODE_BYTES * len(page.nodes)))


def _node(node: Node) -> Object:
    return {
        "id": node.id,
        "object": "response.node",
        "parent_id": node.parent_id,
        "status": node.status,
        "depth": node.depth,
        "child_count": node.child_count,
        "created_at": node.created_at_ms // 1000,
    }


def _links(records: Sequence[Record], readable: Set[str]) -> bytes:
    return b",".join(_link(record, is_readable=record.id in readable) for record in records)


def _link(record: Record, *, is_readable: bool) -> bytes:
    """An entry of a chain: the response, or a placeholder for added items or a deleted response."""
    if is_readable:
        return stored_content.response_json(record)
    if stored_content.body_of(record).get("object") == ADDED_ITEMS:
        return dumps({"id": record.id, "object": ADDED_ITEMS})
    return dumps({"id": record.id, "object": "response", "deleted": True})


def _too_long(response_id: str, error: ChainTooLong) -> LimitExceeded:
    return LimitExceeded(
        f"The chain that ends in '{response_id}' is over the limit of {error.facts['limit']} for one answer. "
        f"List its nodes with /v1/responses/{response_id}/tree?from_root=true."
    )
