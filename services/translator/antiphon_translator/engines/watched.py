"""An engine at one endpoint, as operators see it: whether it is up, what runs on it, what it fails, and a span for each
generation that carries the trace on to the model's server.
"""

from __future__ import annotations

import asyncio
from copy import copy

from antiphon_core.errors import AntiphonError, EngineTimeout, EngineUnavailable
from antiphon_core.flow import Flow
from antiphon_core.telemetry import metrics, spans, tracing
from antiphon_core.telemetry.spans import SpanKind
from antiphon_translator.engines.base import DOWN_WAIT_S, Deliver, Engine
from antiphon_translator.generation import GenerationRequest, Level
from antiphon_translator.models.profiles import ModelProfile


class WatchedEngine:
    """Implements Engine around another one. Chunks pass by it: it costs nothing per token."""

    def __init__(self, inner: Engine, profile: ModelProfile) -> None:
        self._inner = inner
        self._model = profile.name
        self._endpoint = profile.endpoint
        self._facts = {
            spans.OPERATION: spans.CHAT,
            spans.PROVIDER: profile.engine,
            spans.REQUEST_MODEL: profile.name,
            spans.SERVER_ADDRESS: profile.endpoint,
        }
        self._fault: AntiphonError | None = None
        """The reason why the endpoint is down."""
        self._question: asyncio.Task[frozenset[str]] | None = None
        self._up = metrics.ENGINE_UP.of(self._model, self._endpoint)
        self._up.set(1)
        self._in_flight = metrics.ENGINE_IN_FLIGHT.of(self._model, self._endpoint)
        metrics.ENGINE_EVICTIONS.of(self._model, self._endpoint)

    @property
    def level(self) -> Level:
        return self._inner.level

    async def controls(self) -> frozenset[str]:
        if self._fault is None:
            return await self._inner.controls()
        question = self._question
        if question is None or question.done():
            question = self._question = asyncio.create_task(self._inner.controls())
            question.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # perhaps nobody waits
        await asyncio.wait({question}, timeout=DOWN_WAIT_S)
        if not question.done() or question.cancelled():
            raise copy(self._fault)
        return question.result()

    async def generate(self, request: GenerationRequest, deliver: Deliver, flow: Flow) -> None:
        self._in_flight.add()
        try:
            with tracing.span(spans.chat(self._model), SpanKind.CLIENT, self._facts):
                await self._inner.generate(request, deliver, flow)
            self._is_up()
        except AntiphonError as error:
            metrics.ENGINE_ERRORS.of(self._model, self._endpoint, type(error).__name__).add()
            self._note(error)
            raise
        finally:
            self._in_flight.add(-1)

    async def ready(self) -> None:
        try:
            await self._inner.ready()
        except AntiphonError as error:
            self._note(error)
            raise
        self._is_up()

    async def close(self) -> None:
        if self._question is not None:
            self._question.cancel()
            await asyncio.wait({self._question})
        await self._inner.close()
        for gauge in (metrics.ENGINE_UP, metrics.ENGINE_IN_FLIGHT):
            gauge.forget(self._model, self._endpoint)

    def _note(self, error: AntiphonError) -> None:
        """An endpoint that cannot be reached, or does not answer, is down."""
        if not isinstance(error, EngineUnavailable | EngineTimeout):
            return
        self._fault = error
        if self._up.value:
            metrics.ENGINE_EVICTIONS.of(self._model, self._endpoint).add()
        self._up.set(0)

    def _is_up(self) -> None:
        self._fault = None
        self._up.set(1)
