"""POST, GET and DELETE /v1/responses, and the input items of a response."""

from __future__ import annotations

from contextlib import aclosing, suppress

from aiohttp import web

from antiphon_core import response
from antiphon_core.errors import InvalidRequest, ResponseNotFound
from antiphon_core.ids import is_response_id
from antiphon_core.jsons import Object, dumps, loads
from antiphon_core.limits import PAGE_ITEMS_DEFAULT, PAGE_ITEMS_MAX
from antiphon_core.ports.store import Order, ResponseStore
from antiphon_core.request import CreateRequest
from antiphon_core.rpc.server import DEFAULT_TENANT
from antiphon_edge.sse import EventStream
from antiphon_edge.turn import Turns


class ResponseRoutes:
    """Handlers over the turn and the store."""

    def __init__(self, turns: Turns, store: ResponseStore, *, keep_alive_s: float) -> None:
        self._turns = turns
        self._store = store
        self._keep_alive_s = keep_alive_s

    def table(self) -> list[web.RouteDef]:
        return [
            web.post("/v1/responses", self.create),
            web.get("/v1/responses/{id}", self.retrieve, allow_head=False),
            web.delete("/v1/responses/{id}", self.delete),
            web.get("/v1/responses/{id}/input_items", self.input_items, allow_head=False),
        ]

    async def create(self, request: web.Request) -> web.StreamResponse:
        asked = CreateRequest.parse(await request.read())
        tenant = DEFAULT_TENANT
        if not asked.stream:
            return _json(await self._turns.complete(tenant, asked))
        async with aclosing(self._turns.stream(tenant, asked)) as batches:
            first = await anext(batches)  # what is wrong with the request is raised here, before the 200
            async with EventStream(request, keep_alive_s=self._keep_alive_s) as stream:
                await stream.write(first.frames)
                async for batch in batches:
                    await stream.write(batch.frames)
        return stream.response

    async def retrieve(self, request: web.Request) -> web.Response:
        if request.query.get("stream", "false").lower() == "true":
            raise InvalidRequest(
                "Streaming a stored response is not supported by this server yet.",
                field="stream",
                code="unsupported_parameter",
            )
        record = await self._store.get(DEFAULT_TENANT, _id(request))
        return _json(response.join(record.body, record.output_items))

    async def delete(self, request: web.Request) -> web.Response:
        response_id = _id(request)
        await self._store.delete(DEFAULT_TENANT, response_id)
        return _json(dumps({"id": response_id, "object": "response", "deleted": True}))

    async def input_items(self, request: web.Request) -> web.Response:
        page = await self._store.list_items(
            DEFAULT_TENANT,
            _id(request),
            after=request.query.get("after"),
            limit=_limit(request),
            order=_order(request),
        )
        answer: Object = {
            "object": "list",
            "data": loads(page.items),
            "first_id": page.first_id,
            "last_id": page.last_id,
            "has_more": page.has_more,
        }
        return _json(dumps(answer))


def _id(request: web.Request) -> str:
    response_id = request.match_info["id"]
    if not is_response_id(response_id):
        raise ResponseNotFound.of(response_id)
    return response_id


def _limit(request: web.Request) -> int:
    given = request.query.get("limit", str(PAGE_ITEMS_DEFAULT))
    with suppress(ValueError):
        limit = int(given)
        if 1 <= limit <= PAGE_ITEMS_MAX:
            return limit
        code = "integer_below_min_value" if limit < 1 else "integer_above_max_value"
        message = f"Invalid value for 'limit': it must be between 1 and {PAGE_ITEMS_MAX}."
        raise InvalidRequest(message, field="limit", code=code)
    raise InvalidRequest("Invalid type for 'limit': expected an integer.", field="limit", code="invalid_type")


def _order(request: web.Request) -> Order:
    given = request.query.get("order", Order.DESCENDING.value)
    if given not in list(Order):
        raise InvalidRequest("'order' must be one of 'asc' or 'desc'.", field="order", code="invalid_value")
    return Order(given)


def _json(body: bytes) -> web.Response:
    return web.Response(body=body, content_type="application/json")
