"""A client of the translator over gRPC."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import Any, Literal

from antiphon_core.errors import TranslatorUnavailable, Unimplemented
from antiphon_core.flow import Flow
from antiphon_core.ports.translator import Model, Receive, Resume, Turn
from antiphon_core.rpc.client import PeerSilent, RpcClient
from antiphon_core.rpc.credentials import ANONYMOUS, ClientCredentials
from antiphon_core.rpc.hedging import hedged
from antiphon_core.rpc.lean_streams import LeanStreams
from antiphon_core.rpc.methods import TRANSLATOR
from antiphon_protos.antiphon.translator import v1
from antiphon_translator import wire

log = logging.getLogger(__name__)

SILENT_ATTEMPTS_MAX = 3
"""Attempts at a turn over grpc.aio, while each translator falls silent before its first event."""

Transport = Literal["lean", "grpc"]
"""The transport of generations: antiphon_http2 or grpc.aio."""


class TranslatorClient:
    """The port of a translator in another process. Create, use and close it inside one event loop; `endpoint` is a gRPC
    target.

    Generations use antiphon_http2, unless `transport` is "grpc" or the target is of another kind than host:port
    and dns:///host:port. All other calls use grpc.aio. A call that cannot reach a translator is repeated for the first
    `wait_s` of its absence; only `ready` is not.
    """

    def __init__(
        self,
        endpoint: str,
        *,
        credentials: ClientCredentials = ANONYMOUS,
        transport: Transport = "lean",
        silence_s: float = 0.0,
        wait_s: float = 0.0,
    ) -> None:
        """A translator that sends nothing for `silence_s` during a generation, not even a heartbeat, is given up as
        lost. With 0 it is lost only when its connection ends."""
        self._silence_s = silence_s
        self._rpc = RpcClient(
            endpoint, TRANSLATOR, unavailable=TranslatorUnavailable, credentials=credentials, wait_s=wait_s
        )
        self._lean = _lean_streams(endpoint, credentials, wait_s) if transport == "lean" else None

    async def close(self) -> None:
        if self._lean is not None:
            await self._lean.close()
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
            resume=wire.resume_message(resume),
            checkpoints=checkpoints,
            silence_ms=round(self._silence_s * 1000),
        )
        ended = False

        def take(message: Any) -> None:
            nonlocal ended
            if not message.count and not message.frames and not message.HasField("final"):  # a heartbeat
                return
            batch = wire.batch_value(message)
            ended = batch.final is not None
            receive(batch)

        if self._lean is not None:
            await self._lean.run("Generate", request, take, flow=flow, tenant=turn.tenant, silence_s=self._silence_s)
        else:
            await self._read(request, take, flow, turn.tenant)
        if not ended:
            raise TranslatorUnavailable("The translator ended the stream without a terminal event.")

    async def _read(
        self, request: v1.GenerateRequest, take: Callable[[Any], None], flow: Flow | None, tenant: str
    ) -> None:
        """Generates over grpc.aio. When a translator falls silent before its first event, the next one is called."""
        for attempt in range(SILENT_ATTEMPTS_MAX):
            has_begun = False
            try:
                stream = self._rpc.stream("Generate", request, tenant=tenant, silence_s=self._silence_s, flow=flow)
                async with aclosing(stream) as messages:
                    async for message in messages:
                        has_begun = has_begun or bool(message.count)
                        take(message)
                        if flow is not None:
                            await flow.wait_until_open()
                return
            except PeerSilent as error:
                if has_begun or attempt == SILENT_ATTEMPTS_MAX - 1:
                    raise TranslatorUnavailable(str(error)) from error

    async def count_tokens(self, turn: Turn) -> int:
        request = v1.CountTokensRequest(turn=wire.turn_message(turn))
        answer = await hedged(lambda: self._rpc.call("CountTokens", request, tenant=turn.tenant))
        return int(answer.input_tokens)

    async def check(self, turn: Turn) -> None:
        request = v1.CheckTurnRequest(turn=wire.turn_message(turn))
        try:
            await hedged(lambda: self._rpc.call("CheckTurn", request, tenant=turn.tenant))
        except Unimplemented:  # a translator of the release before, during an upgrade
            await self.count_tokens(turn)

    async def models(self) -> Sequence[Model]:
        answer = await hedged(lambda: self._rpc.call("ListModels", v1.ListModelsRequest()))
        return tuple(wire.model_value(message) for message in answer.models)

    async def ready(self) -> None:
        await self._rpc.ready()


def _lean_streams(endpoint: str, credentials: ClientCredentials, wait_s: float) -> LeanStreams | None:
    """The streams over antiphon_http2; None for a kind of endpoint that only grpc.aio knows."""
    try:
        return LeanStreams(
            endpoint, TRANSLATOR, unavailable=TranslatorUnavailable, credentials=credentials, wait_s=wait_s
        )
    except ValueError as error:
        log.info("generations come over grpc.aio: %s", error)
        return None
