"""POST /v1/chat/completions: runs the same turns as /v1/responses, and stores nothing."""

from __future__ import annotations

from functools import partial

from aiohttp import web

from antiphon_core import offload
from antiphon_core.jsons import Object, dumps, loads, work_bytes
from antiphon_edge.callers.authentication import tenant_of
from antiphon_edge.chat.body import ChatRequest
from antiphon_edge.chat.chunks import ChunkStream
from antiphon_edge.chat.completions import completion_of
from antiphon_edge.chat.requests import ChatTurn, as_turn
from antiphon_edge.operations.routing import serves
from antiphon_edge.routes import answers, bodies
from antiphon_edge.routes.sse import EventStream
from antiphon_edge.routes.turn_headers import reject_stateful_headers
from antiphon_edge.turns.turn_service import TurnService


class ChatRoutes:
    """The handler of chat completions."""

    def __init__(self, turns: TurnService, *, keep_alive_s: float) -> None:
        self._turns = turns
        self._keep_alive_s = keep_alive_s

    @serves("createChatCompletion")
    async def create(self, request: web.Request) -> web.StreamResponse:
        reject_stateful_headers(request, "chat completions")
        turn = await bodies.parse_body(request, _turn_of)
        with turn.errors.translate_errors():
            if turn.is_streaming:
                return await self._stream(request, turn)
            response = await self._turns.complete(tenant_of(request), turn.create)
        return answers.json(await offload.run(partial(_completion, response), size_bytes=work_bytes(response)))

    async def _stream(self, request: web.Request, turn: ChatTurn) -> web.StreamResponse:
        chunks = ChunkStream(include_usage=turn.includes_usage, errors=turn.errors)
        answer = EventStream(request, keep_alive_s=self._keep_alive_s, transform=chunks.of_batch)
        try:
            await self._turns.send(tenant_of(request), turn.create, answer.receive, answer.flow)
            await answer.end()
        finally:
            answer.stop()
        return answer.response


def _turn_of(given: Object, *, work_bytes: int) -> ChatTurn:
    return as_turn(ChatRequest.of(given, work_bytes=work_bytes))


def _completion(response: bytes) -> bytes:
    """The chat completion for a response, as JSON."""
    return dumps(completion_of(loads(response)))
