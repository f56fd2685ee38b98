"""The translator on gRPC: each RPC is one call of the port."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

from antiphon_core.ports.translator import Translator
from antiphon_core.rpc.server import Call, Handler
from antiphon_protos.antiphon.translator import v1
from antiphon_translator import wire


def handlers(translator: Translator) -> Mapping[str, Handler]:
    """What serves each RPC of TranslatorService."""

    async def generate(request: Any, _call: Call) -> AsyncGenerator[Any, None]:
        stream = translator.generate(
            wire.turn_value(request.turn), resume=wire.resume_value(request.resume), checkpoints=request.checkpoints
        )
        async with aclosing(stream) as batches:
            async for batch in batches:
                yield wire.batch_message(batch)

    async def count_tokens(request: Any, _call: Call) -> Any:
        return v1.CountTokensResponse(input_tokens=await translator.count_tokens(wire.turn_value(request.turn)))

    async def list_models(_request: Any, _call: Call) -> Any:
        return v1.ListModelsResponse(models=[wire.model_message(model) for model in await translator.models()])

    return {"Generate": generate, "CountTokens": count_tokens, "ListModels": list_models}
