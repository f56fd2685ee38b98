"""An engine at one endpoint, with metrics and spans: whether it is up, its generations in flight, its errors, a span
for each generation that carries the trace on to the model's server, and the placement on each first chunk.
"""

from __future__ import annotations

import asyncio
from copy import copy

from antiphon_core.errors import AntiphonError, EngineTimeout, EngineUnavailable
from antiphon_core.flow import Flow
from antiphon_core.telemetry import metrics, spans, tracing
from antiphon_core.telemetry.spans import SpanKind
from antiphon_translator.engines.base import DOWN_WAIT_S, Deliver, Engine
from antiphon_translator.engines.placed_delivery import PlacedDelivery
from antiphon_translator.generation import GenerationRequest, Level
from antiphon_translator.models.profiles import ModelProfile
from antiphon_translator.placement import placement_of


class WatchedEngine:
    """Wraps another engine, at no cost per token. While the endpoint is down, `controls` waits for DOWN_WAIT_S at most,
    and then raises the error for which it is down."""

    def __init__(self, inner: Engine, profile: ModelProfile) -> None:
        self._inner = inner
        self._model = profile.name
        self._endpoint = profile.endpoint
        self._waiting: set[str] = set()
        """The ids of the generations without any output."""
        self._facts = {
            spans.OPERATION: spans.CHAT,
            spans.PROVIDER: profile.engine,
            spans.REQUEST_MODEL: profile.name,
            spans.SERVER_ADDRESS: profile.endpoint,
        }
        self._fault: AntiphonError | None = None
        """The error for which the endpoint is down."""
        self._probe: asyncio.Task[frozenset[str]] | None = None
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
        probe = self._probe
        if probe is None or probe.done():
            probe = self._probe = asyncio.create_task(self._inner.controls())
            probe.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # read if no turn waits
        await asyncio.wait({probe}, timeout=DOWN_WAIT_S)
        if not probe.done() or probe.cancelled():
            raise copy(self._fault)
        return probe.result()

    async def generate(self, request: GenerationRequest, deliver: Deliver, flow: Flow) -> None:
        if request.is_prewarm and self._waiting:
            return
        self._waiting.add(request.request_id)
        self._in_flight.add()

        def place(routed_to: str) -> str:
            self._waiting.discard(request.request_id)
            return placement_of(self._endpoint, routed_to)

        try:
            with tracing.span(f"{spans.CHAT} {self._model}", SpanKind.CLIENT, self._facts):
                await self._inner.generate(request, PlacedDelivery(deliver, place), flow)
            self._mark_up()
        except AntiphonError as error:
            metrics.ENGINE_ERRORS.of(self._model, self._endpoint, type(error).__name__).add()
            if not (request.is_prewarm and isinstance(error, EngineTimeout)):  # it had to wait for other prompts
                self._mark_down(error)
            raise
        finally:
            self._in_flight.add(-1)
            self._waiting.discard(request.request_id)

    async def ready(self) -> None:
        try:
            await self._inner.ready()
        except AntiphonError as error:
            self._mark_down(error)
            raise
        self._mark_up()

    async def close(self) -> None:
        if self._probe is not None:
            self._probe.cancel()
            await asyncio.wait({self._probe})
        await self._inner.close()
        for gauge in (metrics.ENGINE_UP, metrics.ENGINE_IN_FLIGHT):
            gauge.forget(self._model, self._endpoint)

    def _mark_down(self, error: AntiphonError) -> None:
        """Marks the endpoint as down if the error means that it cannot be reached or does not answer."""
        if not isinstance(error, EngineUnavailable | EngineTimeout):
            return
        self._fault = error
        if self._up.value:
            metrics.ENGINE_EVICTIONS.of(self._model, self._endpoint).add()
        self._up.set(0)

    def _mark_up(self) -> None:
        self._fault = None
        self._up.set(1)
