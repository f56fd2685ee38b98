"""The translator's port over gRPC."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing

from antiphon_core.errors import TranslatorUnavailable
from antiphon_core.flow import Flow
from antiphon_core.ports.translator import Model, Receive, Resume, Turn
from antiphon_core.rpc.client import RpcClient
from antiphon_core.rpc.credentials import ANONYMOUS, ClientCredentials
from antiphon_core.rpc.methods import TRANSLATOR
from antiphon_protos.antiphon.translator import v1
from antiphon_translator import wire


class TranslatorClient:
    """A Translator elsewhere. Make, use and close it inside one event loop; `endpoint` is a gRPC target."""

    def __init__(self, endpoint: str, *, credentials: ClientCredentials = ANONYMOUS) -> None:
        self._rpc = RpcClient(endpoint, TRANSLATOR, unavailable=TranslatorUnavailable, credentials=credentials)

    async def close(self) -> None:
        await self._rpc.close()

    async def generate(
        self,
        turn: Turn,
        receive: Receive,
        *,
        flow: Flow | None = None,
        resume: Resume | None = None,
        checkpoints: bool = False,
    ) -> None:
        request = v1.GenerateRequest(
            turn=wire.turn_message(turn), resume=wire.resume_message(resume), checkpoints=checkpoints
        )
        ended = False
        async with aclosing(self._rpc.stream("Generate", request)) as messages:
            async for message in messages:
                batch = wire.batch_value(message)
                ended = batch.final is not None
                receive(batch)
                if flow is not None:
                    await flow.wait_until_open()
        if not ended:
            raise TranslatorUnavailable("The translator ended the stream without a terminal event.")

    async def count_tokens(self, turn: Turn) -> int:
        answer = await self._rpc.call("CountTokens", v1.CountTokensRequest(turn=wire.turn_message(turn)))
        return int(answer.input_tokens)

    async def models(self) -> Sequence[Model]:
        answer = await self._rpc.call("ListModels", v1.ListModelsRequest())
        return tuple(wire.model_value(message) for message in answer.models)

    async def ready(self) -> None:
        await self._rpc.ready()
