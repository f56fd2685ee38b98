"""The translator on gRPC: each RPC is one call of the port."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from functools import partial
from typing import Any

from antiphon_core.errors import InvalidRequest
from antiphon_core.flow import Flow
from antiphon_core.limits import SILENCE_MS_MIN
from antiphon_core.ports.translator import Translator
from antiphon_core.rpc.server import Call, Handler
from antiphon_protos.antiphon.translator import v1
from antiphon_translator import wire
from antiphon_translator.heartbeats import Heartbeats
from antiphon_translator.send_queue import SendQueue


def handlers(translator: Translator) -> Mapping[str, Handler]:
    """The handlers of the RPCs of TranslatorService."""

    async def generate(request: Any, call: Call) -> AsyncGenerator[Any, None]:
        _require_silence(request.silence_ms)
        flow = Flow()
        queue = SendQueue(flow, call.pusher)
        running = asyncio.ensure_future(
            translator.generate(
                wire.turn_value(request.turn, call.tenant, request.compared),
                queue.put,
                flow=flow,
                resume=wire.resume_value(request.resume),
                checkpoints=request.checkpoints,
            )
        )
        running.add_done_callback(lambda _: queue.close())
        beats = Heartbeats(queue, request.silence_ms / 1000)
        try:
            with beats.running():
                while (batch := await queue.take()) is not None:
                    yield wire.batch_message(batch)
            beats.require_awake()
            running.result()
        finally:
            await _stop(running)

    async def count_tokens(request: Any, call: Call) -> Any:
        turn = wire.turn_value(request.turn, call.tenant)
        return v1.CountTokensResponse(input_tokens=await translator.count_tokens(turn))

    async def check_turn(request: Any, call: Call) -> Any:
        await translator.check(wire.turn_value(request.turn, call.tenant))
        return v1.CheckTurnResponse()

    async def list_models(_request: Any, _call: Call) -> Any:
        return v1.ListModelsResponse(models=[wire.model_message(model) for model in await translator.models()])

    counts: Mapping[str, Handler] = {"CountTokens": count_tokens, "CheckTurn": check_turn, "ListModels": list_models}
    return {"Generate": generate, "ExplainCache": partial(_explain_cache, translator), **counts}


async def _explain_cache(translator: Translator, request: Any, call: Call) -> Any:
    now = wire.ended_value(request.turn, call.tenant)
    if now is None:
        raise InvalidRequest("Missing required parameter: 'turn'.", field="turn", code="missing_required_parameter")
    report = await translator.explain_cache(now, wire.ended_value(request.compared, call.tenant))
    return v1.ExplainCacheResponse(report=report)


def _require_silence(silence_ms: int) -> None:
    """InvalidRequest: the silence timeout is too short. A busy translator would miss it, and be taken for lost."""
    if 0 < silence_ms < SILENCE_MS_MIN:
        raise InvalidRequest(f"'silence_ms' must be 0, or {SILENCE_MS_MIN} or more.", field="silence_ms")


async def _stop(running: asyncio.Future[None]) -> None:
    """Ends a turn. Its error is dropped: the caller has it already, or is gone."""
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
