"""POST, GET and DELETE /v1/responses, and the input items of a response."""

from __future__ import annotations

from contextlib import aclosing

from aiohttp import web

from antiphon_core import response
from antiphon_core.errors import InvalidRequest, ResponseNotFound
from antiphon_core.ids import is_response_id
from antiphon_core.ports.full_store import FullStore
from antiphon_core.request import CreateRequest
from antiphon_edge import admission, answers, queries
from antiphon_edge.sse import EventStream
from antiphon_edge.tenancy import tenant_of
from antiphon_edge.turn import Turns


class ResponseRoutes:
    """Handlers over the turn and the store."""

    def __init__(self, turns: Turns, store: FullStore, *, keep_alive_s: float) -> None:
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
        tenant = tenant_of(request)
        if not asked.stream:
            body = await self._turns.complete(tenant, asked)
            await admission.charge(request, body)
            return answers.json(body)
        async with aclosing(self._turns.stream(tenant, asked)) as batches:
            first = await anext(batches)  # what is wrong with the request is raised here, before the 200
            async with EventStream(request, keep_alive_s=self._keep_alive_s) as stream:
                await stream.write(first.frames)
                async for batch in batches:
                    if batch.final is not None:
                        await admission.charge(request, batch.final.body)
                    await stream.write(batch.frames)
        return stream.response

    async def retrieve(self, request: web.Request) -> web.Response:
        if queries.flag(request, "stream"):
            raise InvalidRequest(
                "Streaming a stored response is not supported by this server yet.",
                field="stream",
                code="unsupported_parameter",
            )
        record = await self._store.get(tenant_of(request), _id(request))
        return answers.json(response.join(record.body, record.output_items))

    async def delete(self, request: web.Request) -> web.Response:
        response_id = _id(request)
        await self._store.delete(tenant_of(request), response_id)
        return answers.json({"id": response_id, "object": "response", "deleted": True})

    async def input_items(self, request: web.Request) -> web.Response:
        page = await self._store.list_items(
            tenant_of(request),
            _id(request),
            after=request.query.get("after"),
            limit=queries.limit(request),
            order=queries.order(request),
        )
        return answers.item_page(page)


def _id(request: web.Request) -> str:
    response_id = request.match_info["id"]
    if not is_response_id(response_id):
        raise ResponseNotFound.of(response_id)
    return response_id
