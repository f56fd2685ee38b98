"""POST, GET and DELETE /v1/responses, and what can be asked of one response."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from aiohttp import web

from antiphon_core import response
from antiphon_core.errors import InvalidRequest, ResponseNotFound
from antiphon_core.ids import is_response_id, is_session_id
from antiphon_core.jsons import dumps, loads
from antiphon_core.ports.full_store import FullStore
from antiphon_core.ports.store import Record
from antiphon_core.ports.translator import Batch
from antiphon_core.request import CountRequest, CreateRequest
from antiphon_edge.background.background import Background
from antiphon_edge.background.queueing import UNFINISHED
from antiphon_edge.door.tenancy import tenant_of
from antiphon_edge.routes import answers, queries
from antiphon_edge.routes.idempotency_keys import key_of
from antiphon_edge.routes.sse import EventStream
from antiphon_edge.turns.turn import Turns

ANSWER_S = 1.0
"""How long a stream of a response that runs elsewhere waits for its first event before it begins."""
SESSION_HEADER = "x-antiphon-session"
SEQUENCE_MAX = 2**53  # what JSON numbers are exact up to


class ResponseRoutes:
    """Handlers over the turn, the background and the store."""

    def __init__(self, turns: Turns, background: Background, store: FullStore, *, keep_alive_s: float) -> None:
        self._turns = turns
        self._background = background
        self._store = store
        self._keep_alive_s = keep_alive_s

    def table(self) -> list[web.RouteDef]:
        return [
            web.post("/v1/responses", self.create),
            web.post("/v1/responses/input_tokens", self.input_tokens),
            web.get("/v1/responses/{id}", self.retrieve, allow_head=False),
            web.delete("/v1/responses/{id}", self.delete),
            web.post("/v1/responses/{id}/cancel", self.cancel),
            web.get("/v1/responses/{id}/input_items", self.input_items, allow_head=False),
        ]

    async def create(self, request: web.Request) -> web.StreamResponse:
        asked = CreateRequest.parse(await request.read())
        tenant, session_id, key = tenant_of(request), session_id_of(request), key_of(request)
        if asked.background:
            record = await self._background.create(tenant, asked, session_id=session_id, key=key)
            if not asked.stream:
                return answers.json(_as_json(record))
            return await self._send_followed(request, self._background.stream(tenant, record))
        if not asked.stream:
            return answers.json(await self._turns.complete(tenant, asked, session_id=session_id, key=key))
        return await self._send(request, self._turns.stream(tenant, asked, session_id=session_id, key=key))

    async def input_tokens(self, request: web.Request) -> web.Response:
        """How many tokens the prompt of this request would have; nothing is generated, and nothing kept."""
        asked = CountRequest.parse(await request.read())
        count = await self._turns.count_tokens(tenant_of(request), asked)
        return answers.json({"object": "response.input_tokens", "input_tokens": count})

    async def retrieve(self, request: web.Request) -> web.StreamResponse:
        after = queries.number(request, "starting_after", least=0, most=SEQUENCE_MAX)
        record = await self._background.current(tenant_of(request), _id(request))
        if queries.flag(request, "stream"):
            stream = self._background.stream(tenant_of(request), record, after=after)
            return await self._send_followed(request, stream)
        if after is not None:
            raise InvalidRequest("'starting_after' needs 'stream=true'.", field="starting_after", code="invalid_value")
        return answers.json(_as_json(record))

    async def delete(self, request: web.Request) -> web.Response:
        response_id = _id(request)
        await self._background.delete(tenant_of(request), response_id)
        return answers.json({"id": response_id, "object": "response", "deleted": True})

    async def cancel(self, request: web.Request) -> web.Response:
        return answers.json(_as_json(await self._background.cancel(tenant_of(request), _id(request))))

    async def input_items(self, request: web.Request) -> web.Response:
        page = await self._store.list_items(
            tenant_of(request),
            _id(request),
            after=request.query.get("after"),
            limit=queries.limit(request),
            order=queries.order(request),
        )
        return answers.item_page(page)

    async def _send(self, request: web.Request, stream: AsyncGenerator[Batch, None]) -> web.StreamResponse:
        async with aclosing(stream) as batches:
            first = await anext(batches, None)  # what is wrong with the request is raised here, before the 200
            async with EventStream(request, keep_alive_s=self._keep_alive_s) as events:
                if first is not None:
                    await events.write(first.frames)
                async for batch in batches:
                    await events.write(batch.frames)
        return events.response

    async def _send_followed(self, request: web.Request, stream: AsyncGenerator[Batch, None]) -> web.StreamResponse:
        """The same for what runs elsewhere, and may wait for long: the answer begins without an event then."""
        async with aclosing(stream) as batches:
            first = asyncio.ensure_future(anext(batches, None))
            try:
                await asyncio.wait([first], timeout=ANSWER_S)
                if first.done():
                    first.result()
                async with EventStream(request, keep_alive_s=self._keep_alive_s) as events:
                    batch = await first
                    while batch is not None:
                        await events.write(batch.frames)
                        batch = await anext(batches, None)
            finally:
                first.cancel()
                await asyncio.wait([first])
        return events.response


def _as_json(record: Record) -> bytes:
    """A response as its clients see it. While it is unfinished its record knows its status better than its body."""
    body = record.body
    if record.status in UNFINISHED:
        body = dumps(loads(body) | {"status": record.status.value})
    return response.join(body, record.output_items)


def _id(request: web.Request) -> str:
    response_id = request.match_info["id"]
    if not is_response_id(response_id):
        raise ResponseNotFound.of(response_id)
    return response_id


def session_id_of(request: web.Request) -> str | None:
    """The session that a request names besides its body. InvalidRequest: it cannot be one."""
    given = request.headers.get(SESSION_HEADER)
    if given is not None and not is_session_id(given):
        raise InvalidRequest(
            f"'{SESSION_HEADER}' must be 1 to 128 letters, digits, underscores and hyphens.",
            field=SESSION_HEADER,
            code="invalid_value",
        )
    return given
