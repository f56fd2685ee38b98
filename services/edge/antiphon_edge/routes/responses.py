"""POST /v1/responses and /v1/responses/input_tokens, and the routes of one response."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from functools import partial

from aiohttp import web

from antiphon_core import damage, offload
from antiphon_core.errors import InvalidApiKey, InvalidRequest, ResponseNotFound
from antiphon_core.ids import is_response_id
from antiphon_core.jsons import dumps, loads, work_bytes
from antiphon_core.ports.full_store import FullStore
from antiphon_core.ports.store import Record
from antiphon_core.ports.translator import Batch
from antiphon_core.request.body import CountRequest, CreateRequest
from antiphon_core.request.hosted_tools import NONE_RUN_HERE, HostedTools
from antiphon_core.rpc.checked_stream import CheckedStream
from antiphon_core.telemetry import metrics
from antiphon_edge import stored_content
from antiphon_edge.background.background import Background, is_background, synchronous
from antiphon_edge.callers import authentication
from antiphon_edge.callers.authentication import tenant_of
from antiphon_edge.http import dropped_tools
from antiphon_edge.operations.parameters import SEQUENCE_MAX
from antiphon_edge.operations.routing import serves
from antiphon_edge.quotas.admission import long_work_of
from antiphon_edge.routes import answers, bodies, queries, resuming, turn_headers
from antiphon_edge.routes.sse import NO_HEADERS, EventStream
from antiphon_edge.sealed.reasoning import INCLUDE, Change, ReasoningSealer
from antiphon_edge.sealed.sealing import Sealer
from antiphon_edge.turns.turn_service import TurnService

ANSWER_S = 1.0
"""How long the stream of a stored or background response waits for its first event before it sends the headers."""


class ResponseRoutes:
    """Handlers over turns, background responses and the store."""

    def __init__(
        self,
        turns: TurnService,
        background: Background,
        store: FullStore,
        sealer: Sealer,
        *,
        keep_alive_s: float,
        has_keep_alive_events: bool = False,
        hosted: HostedTools = NONE_RUN_HERE,
    ) -> None:
        """`has_keep_alive_events`: as in EventStream. `hosted` decides about hosted tools in requests.
        Otherwise such requests are rejected."""
        self._hosted = hosted
        self._turns = turns
        self._background = background
        self._store = store
        self._sealer = sealer
        self._new_stream = partial(EventStream, keep_alive_s=keep_alive_s, has_keep_alive_events=has_keep_alive_events)

    @serves("createResponse")
    async def create(self, request: web.Request) -> web.StreamResponse:
        body = await bodies.parse_body(request, partial(CreateRequest.of, hosted=self._hosted))
        if body.dropped_tools is not None:
            dropped_tools.note(request, body.dropped_tools)
        body, session_id = turn_headers.with_session(body, turn_headers.session_id_of(request))
        tenant, key = tenant_of(request), turn_headers.key_of(request)
        if body.background:
            record = await self._background.create(tenant, body, session_id=session_id, key=key)
            if not body.stream:
                return answers.json(await _as_json(record))
            return await self._send_followed(request, record, self._background.stream(tenant, record))
        if not body.stream:
            return answers.json(await self._turns.complete(tenant, body, session_id=session_id, key=key))
        headers = NO_HEADERS if key is None else resuming.BY_KEY
        answer = self._new_stream(request, headers=headers)
        try:
            await self._turns.send(tenant, body, answer.receive, answer.flow, session_id=session_id, key=key)
            await answer.end()
        finally:
            answer.stop()
        return answer.response

    @serves("countInputTokens")
    async def input_tokens(self, request: web.Request) -> web.Response:
        """Counts the tokens of the prompt that this request would have, with the history of its session. Nothing is
        generated or stored."""
        body = await bodies.parse_body(request, partial(CountRequest.of, hosted=self._hosted))
        if body.dropped_tools is not None:
            dropped_tools.note(request, body.dropped_tools)
        asked, session_id = turn_headers.with_session(body, turn_headers.session_id_of(request))
        count = await self._turns.count_tokens(tenant_of(request), asked, session_id=session_id)
        return answers.json({"object": "response.input_tokens", "input_tokens": count})

    @serves("getResponse")
    async def retrieve(self, request: web.Request) -> web.StreamResponse:
        after = queries.number(request, "starting_after", least=0, most=SEQUENCE_MAX)
        sealer = self._sealer_for(request)
        record = await self._current(tenant_of(request), _id(request))
        if queries.flag(request, "stream"):
            metrics.REPLAYS.of("retrieved").add()
            stream = self._background.stream(tenant_of(request), record, after=after)
            return await self._send_followed(request, record, stream, sealer)
        if after is not None:
            raise InvalidRequest("'starting_after' needs 'stream=true'.", field="starting_after", code="invalid_value")
        return answers.json(
            await _as_json(replace(record, output_items=await _seal_items(record.id, record.output_items, sealer)))
        )

    async def _current(self, tenant: str, response_id: str) -> Record:
        """Reads a stored response, and ends it first if nothing else will. Raises ResponseNotFound."""
        try:
            return await self._background.current(tenant, response_id)
        except ResponseNotFound:
            if not await self._turns.end_if_lost(tenant, response_id):
                raise
        return await self._background.current(tenant, response_id)

    @serves("deleteResponse")
    async def delete(self, request: web.Request) -> web.Response:
        response_id = _id(request)
        await self._background.delete(tenant_of(request), response_id)
        return answers.json({"id": response_id, "object": "response", "deleted": True})

    @serves("cancelResponse")
    async def cancel(self, request: web.Request) -> web.Response:
        tenant, response_id = tenant_of(request), _id(request)
        try:
            return answers.json(await _as_json(await self._background.cancel(tenant, response_id)))
        except ResponseNotFound:
            if await self._turns.is_running(tenant, response_id):
                raise synchronous() from None
            raise

    @serves("listInputItems")
    async def input_items(self, request: web.Request) -> web.Response:
        sealer = self._sealer_for(request)
        tenant = tenant_of(request)
        async with long_work_of(request).reading(tenant) as note_bytes:
            page = await self._store.list_items(
                tenant,
                _id(request),
                after=request.query.get("after"),
                limit=queries.limit(request),
                order=queries.order(request),
            )
            note_bytes(len(page.items))
            items = await _seal_items(_id(request), page.items, sealer)
        return answers.item_page(replace(page, items=items))

    def _sealer_for(self, request: web.Request) -> ReasoningSealer | None:
        """A sealer for stored reasoning, if `include` asks for sealed reasoning. Other values of `include` have no
        effect. InvalidRequest: an unknown value."""
        if INCLUDE not in queries.include(request):
            return None
        return ReasoningSealer(self._sealer, tenant_of(request))

    async def _send_followed(
        self, request: web.Request, record: Record, stream: AsyncGenerator[Batch, None], change: Change | None = None
    ) -> web.StreamResponse:
        """Sends the events of a stored or background response. If none comes within ANSWER_S, the headers are sent
        before the first event. The stream is cut off when its API key is not valid any more."""
        headers = resuming.after_last_event(record.id) if is_background(record) else NO_HEADERS
        answer = self._new_stream(request, headers=headers)
        answer.open_after(ANSWER_S)
        checked = CheckedStream(stream, partial(authentication.check_again, request))
        try:
            async with aclosing(checked.read()) as batches:
                async for batch in batches:
                    answer.receive(await _change_batch(record.id, batch, change))
                    await answer.flow.wait_until_open()
            await answer.end()
        except InvalidApiKey as error:
            if not answer.response.prepared:
                raise
            if request.transport is not None:
                request.transport.close()  # without the last chunk, so that the client knows that events are missing
            raise ConnectionResetError("the API key of this stream is not valid any more") from error
        finally:
            answer.stop()
        return answer.response


async def _change_batch(response_id: str, batch: Batch, change: Change | None) -> Batch:
    """The batch for a client, which may be a whole response with reasoning to seal."""
    if change is None:
        return batch
    with damage.reading(f"the events of '{response_id}'"):
        return await offload.run(partial(change, batch), size_bytes=work_bytes(batch.frames))


async def _seal_items(response_id: str, items: bytes, sealer: ReasoningSealer | None) -> bytes:
    """Stored items. With a sealer, reasoning items get a sealed copy of their text."""
    if sealer is None:
        return items
    with damage.reading(f"the items of '{response_id}'"):
        return await offload.run(partial(_with_seals, items, sealer), size_bytes=len(items))


def _with_seals(items: bytes, sealer: ReasoningSealer) -> bytes:
    return dumps([sealer.item(item) if item.get("content") else item for item in loads(items)])


async def _as_json(record: Record) -> bytes:
    """A response as its clients see it."""
    size_bytes = work_bytes(record.body, record.output_items)
    return await offload.run(partial(stored_content.response_json, record), size_bytes=size_bytes)


def _id(request: web.Request) -> str:
    response_id = request.match_info["id"]
    if not is_response_id(response_id):
        raise ResponseNotFound.of(response_id)
    return response_id
