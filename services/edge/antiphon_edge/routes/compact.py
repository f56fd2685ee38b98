"""POST /v1/responses/compact: shortens a conversation, and returns it as input for the next response. Nothing is
stored."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from aiohttp import web

from antiphon_core import offload
from antiphon_core.errors import AntiphonError, InvalidRequest
from antiphon_core.jsons import Fragment, Object, dumps, join_arrays, loads
from antiphon_core.ports.translator import Translator, Turn
from antiphon_core.request.body import CreateRequest
from antiphon_core.request.hosted_tools import NONE_RUN_HERE, HostedTools
from antiphon_edge import stored_content
from antiphon_edge.callers.authentication import tenant_of
from antiphon_edge.compaction import compaction, context_window
from antiphon_edge.http import dropped_tools
from antiphon_edge.operations.routing import serves
from antiphon_edge.quotas.metering import Meter
from antiphon_edge.routes import answers, bodies
from antiphon_edge.routes.turn_headers import reject_stateful_headers
from antiphon_edge.sealed.compaction import seal_item
from antiphon_edge.sealed.sealing import Sealer
from antiphon_edge.turns.turn_starter import TurnStarter

MEMBERS: Collection[str] = (
    "model",
    "input",
    "instructions",
    "previous_response_id",
    "previous_response",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "service_tier",
    "client_metadata",
    "image",
)


class CompactRoutes:
    """The handler."""

    def __init__(
        self,
        starter: TurnStarter,
        translator: Translator,
        sealer: Sealer,
        *,
        meter: Meter,
        hosted: HostedTools = NONE_RUN_HERE,
    ) -> None:
        self._hosted = hosted
        self._starter = starter
        self._sealer = sealer
        self._meter = meter
        self._translator = translator

    @serves("compactConversation")
    async def compact(self, request: web.Request) -> web.Response:
        reject_stateful_headers(request, "compactions")
        body = await bodies.parse_body(request, partial(request_of, hosted=self._hosted))
        if body.dropped_tools is not None:
            dropped_tools.note(request, body.dropped_tools)
        tenant = tenant_of(request)
        turn = await context_window.shown_off_loop(await self._starter.look(tenant, body))
        kept = await offload.run(partial(_kept_items, turn), size_bytes=turn.size_bytes)
        try:
            summary = await compaction.summarise(self._translator, turn)
        except AntiphonError as error:
            self._meter.count_failure(tenant, error)
            raise
        self._meter.count_usage(tenant, summary.usage)
        output = join_arrays([kept, dumps([seal_item(summary.item, self._sealer, tenant)])])
        return answers.json(
            {
                "id": turn.response_id,
                "object": "response.compaction",
                "created_at": turn.created_at,
                "output": Fragment(output),
                "usage": summary.usage,
            }
        )


def _kept_items(turn: Turn) -> bytes:
    """The items that the compaction keeps. InvalidRequest: there are no items that it could replace."""
    items = [*stored_content.history_of(turn), *loads(turn.input)]
    context_window.require_compactable(items)
    return dumps(context_window.visible_items(items))


def request_of(given: Object, *, work_bytes: int, hosted: HostedTools = NONE_RUN_HERE) -> CreateRequest:
    """Validates the body of a request to compact. Raises InvalidRequest as for a create request."""
    for name in given:
        if name not in MEMBERS:
            raise InvalidRequest(f"Unknown parameter: '{name}'.", field=name, code="unknown_parameter")
    if given.get("input") is None:
        given["input"] = []
    return CreateRequest.of(given, work_bytes=work_bytes, hosted=hosted)
