"""A client of the translator over gRPC."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from antiphon_core.errors import AntiphonError, TranslatorUnavailable, Unimplemented
from antiphon_core.flow import Flow
from antiphon_core.limits import RESTART_WAIT_S
from antiphon_core.ports.translator import EndedTurn, Model, Receive, Resume, Turn
from antiphon_core.retrying import GENERATION, PACING, TRANSLATOR_CALL, Attempts, Pacing, Retrier
from antiphon_core.rpc.call_metadata import DEFAULT_TENANT
from antiphon_core.rpc.client import RpcClient
from antiphon_core.rpc.credentials import ANONYMOUS, ClientCredentials
from antiphon_core.rpc.lean_streams import LeanStreams
from antiphon_core.rpc.methods import TRANSLATOR
from antiphon_protos.antiphon.translator import v1
from antiphon_translator import wire


class TranslatorClient:
    """The port of a translator in another process. Create, use and close it inside one event loop; `endpoint` is
    host:port or dns:///host:port.

    This class owns the retries of the hop (retrying.py): of
    all calls but `ready`, and of generations until their first event.
    """

    def __init__(
        self,
        endpoint: str,
        *,
        credentials: ClientCredentials = ANONYMOUS,
        silence_s: float = 0.0,
        wait_s: float = RESTART_WAIT_S,
        pacing: Pacing = PACING,
    ) -> None:
        """A translator that sends nothing for `silence_s` during a generation, not even a heartbeat, is given up as
        lost. With 0 it is lost only when its connection ends. Calls wait `wait_s` for a translator that is away.
        SettingsError: the endpoint or a file of `credentials` is unusable."""
        self._silence_s = silence_s
        self._retrier = Retrier(TranslatorUnavailable, pacing)
        self._call_policy = replace(TRANSLATOR_CALL, for_s=wait_s)
        self._generation_policy = replace(GENERATION, for_s=wait_s)
        self._rpc = RpcClient(endpoint, TRANSLATOR, unavailable=TranslatorUnavailable, credentials=credentials)
        self._streams = LeanStreams(endpoint, TRANSLATOR, unavailable=TranslatorUnavailable, credentials=credentials)

    async def close(self) -> None:
        await self._streams.close()
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
            turn=wire.turn_message(turn),
            compared=wire.ended_message(turn.compared) if turn.compared is not None else None,
            resume=wire.resume_message(resume),
            checkpoints=checkpoints,
            silence_ms=round(self._silence_s * 1000),
        )
        attempts, has_begun, has_ended = Attempts(self._retrier, self._generation_policy), False, False

        def take(message: Any) -> None:
            nonlocal has_begun, has_ended
            if not message.count and not message.frames and not message.HasField("final"):  # a heartbeat
                return
            if not has_begun:
                has_begun = True
                attempts.note_answer()
            batch = wire.batch_value(message)
            has_ended = batch.is_last
            receive(batch)

        while True:
            try:
                await self._streams.run(
                    "Generate", request, take, flow=flow, tenant=turn.tenant, silence_s=self._silence_s
                )
                break
            except AntiphonError as fault:
                if has_begun or not await attempts.paused_after(fault):
                    raise
        if not has_ended:
            raise TranslatorUnavailable("The translator ended the stream without a terminal event.")

    async def _call(self, name: str, request: Any, tenant: str = DEFAULT_TENANT) -> Any:
        return await self._retrier.run(partial(self._rpc.call, name, request, tenant=tenant), self._call_policy)

    async def count_tokens(self, turn: Turn) -> int:
        request = v1.CountTokensRequest(turn=wire.turn_message(turn))
        answer = await self._call("CountTokens", request, turn.tenant)
        return int(answer.input_tokens)

    async def check(self, turn: Turn) -> None:
        request = v1.CheckTurnRequest(turn=wire.turn_message(turn))
        try:
            await self._call("CheckTurn", request, turn.tenant)
        except Unimplemented:  # a translator of the release before, during an upgrade
            await self.count_tokens(turn)

    async def explain_cache(self, now: EndedTurn, compared: EndedTurn | None) -> bytes:
        request = v1.ExplainCacheRequest(turn=wire.ended_message(now), compared=wire.ended_message(compared))
        answer = await self._call("ExplainCache", request, now.turn.tenant)
        return bytes(answer.report)

    async def models(self) -> Sequence[Model]:
        answer = await self._call("ListModels", v1.ListModelsRequest())
        return tuple(wire.model_value(message) for message in answer.models)

    async def ready(self) -> None:
        await self._rpc.ready()
