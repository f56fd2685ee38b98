"""GET /v1/responses/{id}/cache: what of a prompt was in the engine's cache, and why the rest was not."""

from __future__ import annotations

from aiohttp import web

from antiphon_core.errors import ResponseNotFound
from antiphon_core.ids import is_response_id
from antiphon_core.jsons import Object, dumps, loads
from antiphon_core.ports.full_store import FullStore
from antiphon_core.ports.store import Record
from antiphon_core.ports.translator import EndedTurn, Translator
from antiphon_edge.callers.authentication import tenant_of
from antiphon_edge.operations.routing import serves
from antiphon_edge.routes import answers
from antiphon_edge.turns.ended_turns import EndedTurns

PARENT = "parent"
"""The value of `compare` for the response that this one continues."""


class CacheRoutes:
    """The handler over the store and a translator."""

    def __init__(self, store: FullStore, translator: Translator, ended_turns: EndedTurns) -> None:
        self._store = store
        self._translator = translator
        self._ended_turns = ended_turns

    @serves("explainCache")
    async def explain(self, request: web.Request) -> web.Response:
        tenant = tenant_of(request)
        record = await self._record(tenant, request.match_info["id"])
        compared_id = request.query.get("compare")
        if compared_id == PARENT:
            compared_id = record.parent_id
        compared = await self._other(tenant, compared_id) if compared_id else None
        read = self._ended_turns.facts if compared is None else self._ended_turns.read
        now = await read(tenant, record)
        report: Object = loads(await self._translator.explain_cache(now, compared))
        facts: Object = {"object": "response.cache", "response_id": record.id, "compared_id": compared_id or None}
        return answers.json(dumps(facts | report))

    async def _other(self, tenant: str, response_id: str) -> EndedTurn:
        """ResponseNotFound: it names the parameter."""
        try:
            return await self._ended_turns.read(tenant, await self._record(tenant, response_id))
        except ResponseNotFound as error:
            error.field = "compare"
            raise

    async def _record(self, tenant: str, response_id: str) -> Record:
        if not is_response_id(response_id):
            raise ResponseNotFound.of(response_id)
        return await self._store.get(tenant, response_id)
