"""The Conversations API: /v1/conversations and the items in them.

Items get new ids here, whatever ids the request gives them (docs/adr/0031-the-edge-names-items.md): ids in a
conversation's list are unique, and a deleted item can be added again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from aiohttp import web

from antiphon_core import damage, offload
from antiphon_core.errors import AlreadyExists, ChainTooLong, ConversationNotFound, IdempotencyMismatch, LimitExceeded
from antiphon_core.ids import Ids, is_conversation_id, new_conversation_id
from antiphon_core.items import normalise_input
from antiphon_core.jsons import Object, dumps, loads
from antiphon_core.ports.conversations import Conversation
from antiphon_core.ports.full_store import FullStore
from antiphon_core.ports.store import ItemPage
from antiphon_edge import stored_content
from antiphon_edge.callers.authentication import tenant_of
from antiphon_edge.conversation_requests import AddItems, CreateConversation, UpdateConversation
from antiphon_edge.operations.routing import serves
from antiphon_edge.quotas.admission import long_work_of
from antiphon_edge.routes import answers, bodies, queries
from antiphon_edge.routes.turn_headers import ids_under, key_of
from antiphon_edge.sealed import items as sealed_items
from antiphon_edge.sealed.sealing import Sealer
from antiphon_edge.turns import turn_input

_ALL = "/v1/conversations"
_ONE = _ALL + "/{id}"
_ITEMS = _ONE + "/items"
_ITEM = _ITEMS + "/{item_id}"


class ConversationRoutes:
    """Handlers over the store."""

    def __init__(self, store: FullStore, *, ids: Ids, sealer: Sealer) -> None:
        self._store = store
        self._ids = ids
        self._sealer = sealer

    @serves("createConversation")
    async def create(self, request: web.Request) -> web.Response:
        body = await bodies.parse_body(request, CreateConversation.of, may_be_empty=True)
        tenant, key = tenant_of(request), key_of(request)
        ids = ids_under(key, self._ids, "conversation", tenant)
        conversation_id = new_conversation_id(ids)
        try:
            async with long_work_of(request).reserve(tenant, body.work_bytes):
                items = await self._new_items(tenant, body, ids, conversation_id)
                made = await self._store.create_conversation(
                    tenant, conversation_id=conversation_id, metadata=dumps(body.metadata or {}), items=items
                )
        except AlreadyExists as error:
            if key is None:
                raise
            raise IdempotencyMismatch.of(key) from error
        return _conversation(made)

    @serves("getConversation")
    async def retrieve(self, request: web.Request) -> web.Response:
        return _conversation(await self._store.get_conversation(tenant_of(request), _id(request)))

    @serves("updateConversation")
    async def update(self, request: web.Request) -> web.Response:
        conversation_id = _id(request)
        body = await bodies.parse_body(request, UpdateConversation.of)
        return _conversation(
            await self._store.update_conversation(tenant_of(request), conversation_id, dumps(body.metadata or {}))
        )

    @serves("deleteConversation")
    async def delete(self, request: web.Request) -> web.Response:
        conversation_id = _id(request)
        await self._store.delete_conversation(tenant_of(request), conversation_id)
        return answers.json({"id": conversation_id, "object": "conversation.deleted", "deleted": True})

    @serves("addItems")
    async def add_items(self, request: web.Request) -> web.Response:
        conversation_id = _id(request)
        queries.include(request)
        body = await bodies.parse_body(request, AddItems.of)
        tenant, key = tenant_of(request), key_of(request)
        ids = ids_under(key, self._ids, "items", tenant, conversation_id)
        async with long_work_of(request).reserve(tenant, body.work_bytes):
            items = await self._new_items(tenant, body, ids, conversation_id)
            added = await self._store.add_conversation_items(tenant, conversation_id, items, idempotency_key=key)
        return answers.item_page(await offload.run(partial(_page_of, added), size_bytes=len(added)))

    @serves("listItems")
    async def list_items(self, request: web.Request) -> web.Response:
        conversation_id = _id(request)
        queries.include(request)
        tenant = tenant_of(request)
        async with long_work_of(request).reading(tenant) as note_bytes:
            with _reading_limits():
                page = await self._store.list_conversation_items(
                    tenant,
                    conversation_id,
                    after=request.query.get("after"),
                    limit=queries.limit(request),
                    order=queries.order(request),
                )
            note_bytes(len(page.items))
        return answers.item_page(page)

    @serves("getItem")
    async def retrieve_item(self, request: web.Request) -> web.Response:
        conversation_id, item_id = _id(request), request.match_info["item_id"]
        queries.include(request)
        tenant = tenant_of(request)
        async with long_work_of(request).reading(tenant) as note_bytes:
            with _reading_limits():
                item = await self._store.get_conversation_item(tenant, conversation_id, item_id)
            note_bytes(len(item))
        return answers.json(item)

    @serves("deleteItem")
    async def delete_item(self, request: web.Request) -> web.Response:
        conversation_id, item_id = _id(request), request.match_info["item_id"]
        with _reading_limits():
            return _conversation(
                await self._store.delete_conversation_item(tenant_of(request), conversation_id, item_id)
            )

    async def _new_items(
        self, tenant: str, body: CreateConversation | AddItems, ids: Ids, conversation_id: str
    ) -> bytes:
        """The items of a request: opened if they are sealed, with references resolved, and with new ids."""

        def open_all() -> list[Object]:
            return sealed_items.open_items(body.items_given, self._sealer, tenant, where="items")

        given = await offload.run(open_all, size_bytes=body.work_bytes)
        items, added_bytes = await turn_input.look_up_references(self._store, tenant, given, field="items")
        return await offload.run(
            partial(_with_new_ids, items, ids, conversation_id), size_bytes=body.work_bytes + added_bytes
        )


def _with_new_ids(items: Sequence[Object], ids: Ids, conversation_id: str) -> bytes:
    """Complete items with new ids, in the tree of the conversation."""
    without_ids = [{name: value for name, value in item.items() if name != "id"} for item in items]
    return dumps(normalise_input(without_ids, ids, relative=conversation_id))


def _page_of(added: bytes) -> ItemPage:
    """One page with all items that were added."""
    with damage.reading("items of a conversation"):
        items = loads(added)
        return ItemPage(added, items[0]["id"], items[-1]["id"], has_more=False)


def _id(request: web.Request) -> str:
    conversation_id = request.match_info["id"]
    if not is_conversation_id(conversation_id):
        raise ConversationNotFound.of(conversation_id)
    return conversation_id


def _conversation(conversation: Conversation) -> web.Response:
    return answers.json(
        {
            "id": conversation.id,
            "object": "conversation",
            "created_at": conversation.created_at_ms // 1000,
            "metadata": stored_content.metadata_of(conversation),
        }
    )


@contextmanager
def _reading_limits() -> Iterator[None]:
    """Translates ChainTooLong while the items of a conversation are read: the store's message is about continuing."""
    try:
        yield
    except ChainTooLong as error:
        raise LimitExceeded(
            f"This conversation is over the limit of {error.facts['limit']}: it can neither be read nor continued. "
            "Begin a new one."
        ) from error
