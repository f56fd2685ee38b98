"""One engine for a model that several endpoints serve; endpoint_choice.py chooses the endpoint of each generation.

When an endpoint is lost before it sent anything, the request is retried at another one. When an endpoint is lost in
mid-stream:

* A TOKENS generation *migrates*: another endpoint gets the prompt and the ids so far, and continues behind them. The
  client does not notice. At temperature 0 the text is also the one that the first endpoint would have written.
  Otherwise the rest is sampled anew: with a `seed` the second endpoint begins again with the seed's first draw, and
  engines do not count ids of the prompt for presence and frequency penalties. With a guide there is no migration: the
  grammar would start afresh in the middle of the text.
* Other engines cannot migrate: the point from which a text or a conversation would continue is not exact. The
  generation fails, as it does with a single endpoint.
"""

from __future__ import annotations

import logging
from asyncio import CancelledError
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from antiphon_core.clock import Clock
from antiphon_core.errors import AntiphonError, EngineFault, EngineMisconfigured, EngineTimeout, EngineUnavailable
from antiphon_core.flow import Flow
from antiphon_core.retrying import ENDPOINTS
from antiphon_translator.engines.base import Deliver, Engine
from antiphon_translator.engines.endpoint_cache import LoadReport
from antiphon_translator.engines.endpoint_choice import Chosen, EndpointChoice, Outcome
from antiphon_translator.engines.endpoint_probes import EndpointProbes
from antiphon_translator.engines.load_polls import Fetch, LoadPolls
from antiphon_translator.engines.placed_prompt import PlacedPrompt
from antiphon_translator.engines.replica_metrics import ReplicaMetrics
from antiphon_translator.generation import EngineChunk, EngineFacts, GenerationRequest, Level, TokenChunk, TokenPrompt
from antiphon_translator.lineage.cache_loss import Loss

log = logging.getLogger(__name__)

_LOST = (EngineUnavailable, EngineTimeout, EngineMisconfigured)
"""The errors that say more about an endpoint than about the request: another endpoint may serve it."""


class FleetWatch(Protocol):
    """Watches the endpoints of one model."""

    def count_migration(self) -> None:
        """Counts a generation that migrates."""

    def count_placement(self, chosen: Chosen) -> None:
        """Counts a generation whose endpoint is chosen."""

    def note_load(self, endpoint: str, load: ReplicaMetrics | None) -> None:
        """Notes the result of a poll; None is one that failed."""

    def forget(self, endpoints: Iterable[str]) -> None:
        """Ends the watch."""


class EndpointsEngine:
    """Engines of one level, by endpoint."""

    def __init__(
        self,
        engines: Mapping[str, Engine],
        clock: Clock,
        *,
        translators: int = 1,
        watch: FleetWatch | None = None,
        loads: Fetch | None = None,
    ) -> None:
        """`translators` is the number of processes that choose among these endpoints. `loads` reads the endpoints' own
        figures."""
        self.migrations = 0
        """Migrations so far."""
        self._watch = watch
        self._engines = engines
        self._clock = clock
        self._choice = EndpointChoice(list(engines), translators=translators)
        self._probes = EndpointProbes(engines, self._choice, clock)
        self._polls = LoadPolls(engines, loads, self._note_load, clock) if loads is not None else None

    @property
    def level(self) -> Level:
        return self._levels()[0]

    async def controls(self) -> frozenset[str]:
        """The controls that all endpoints in use have in common."""
        await self._probes.require_one()
        if len(set(self._levels())) > 1:
            log.warning("the endpoints %s serve different kinds of models", ", ".join(self._engines))
            raise EngineUnavailable("The endpoints of the model serve different kinds of models.")
        return self._probes.controls()

    async def ready(self) -> None:
        """Returns when one endpoint is ready. Endpoints that are not ready are ejected."""
        await self._probes.any_ready()

    async def close(self) -> None:
        await self._probes.close()
        if self._polls is not None:
            await self._polls.close()
        for engine in self._engines.values():
            await engine.close()
        if self._watch is not None:
            self._watch.forget(self._engines)

    async def generate(self, request: GenerationRequest, deliver: Deliver, flow: Flow) -> None:
        self._probes.start_due()
        if self._polls is not None:
            self._polls.wake()
        if request.is_prewarm and not self._can_prewarm(request):
            return
        progress = _Progress(request, deliver, self._clock)
        tried: list[str] = []
        while True:
            chosen = self._next(request, tried)
            if request.is_prewarm and chosen.outcome is not Outcome.KEPT:
                return
            tried.append(chosen.endpoint.name)
            try:
                await self._run(chosen, progress, flow)
                return
            except _LOST as error:
                if progress.is_over:
                    return
                if not self._may_move(progress, tried):
                    raise
                self._count_migration(progress)
                log.warning(
                    "%s: %s moves to another endpoint after %d ids: %s",
                    chosen.endpoint.name,
                    request.request_id,
                    len(progress.ids),
                    error.message,
                )

    def _can_prewarm(self, request: GenerationRequest) -> bool:
        return self._choice.can_prewarm(request, now_s=self._clock.monotonic(), now_ms=self._clock.now_ms())

    def _count_migration(self, progress: _Progress) -> None:
        if progress.has_begun:
            self.migrations += 1
            if self._watch is not None:
                self._watch.count_migration()

    def _note_load(self, name: str, load: ReplicaMetrics | None) -> None:
        if load is not None and load.waiting is not None:
            self._choice.note_load(name, LoadReport(load.waiting, self._clock.monotonic()))
        if self._watch is not None:
            self._watch.note_load(name, load)

    def _levels(self) -> list[Level]:
        """The levels of the engines that know theirs. EngineUnavailable: none does."""
        levels, errors = [], []
        for engine in self._engines.values():
            try:
                levels.append(engine.level)
            except EngineUnavailable as error:
                errors.append(error)
        if not levels:
            raise errors[0]
        return levels

    def _next(self, request: GenerationRequest, tried: Sequence[str]) -> Chosen:
        now_s, now_ms = self._clock.monotonic(), self._clock.now_ms()
        without = [*tried, *self._probes.unanswered_endpoints()]
        chosen = self._choice.choose(request, now_s=now_s, now_ms=now_ms, without=without)
        chosen = chosen or self._choice.choose(request, now_s=now_s, now_ms=now_ms, without=tried)
        if chosen is None:
            raise EngineUnavailable("The model has no endpoint.")
        if self._watch is not None and not request.is_prewarm:
            self._watch.count_placement(chosen)
        return chosen

    def _may_move(self, progress: _Progress, tried: Sequence[str]) -> bool:
        """Whether another endpoint can continue a generation whose endpoint was lost."""
        if progress.request.is_prewarm or len(tried) >= min(ENDPOINTS.attempts_max, len(self._engines)):
            return False
        if not progress.has_begun:
            return True
        return self.level is Level.TOKENS and progress.request.guide is None

    async def _run(self, chosen: Chosen, progress: _Progress, flow: Flow) -> None:
        """Runs the rest of the generation on one endpoint, and records the endpoint's success or failure."""
        endpoint = chosen.endpoint
        endpoint.in_flight += 1
        progress.place(chosen)
        try:
            await self._engines[endpoint.name].generate(progress.rest(), progress.deliver, flow)
            if progress.has_begun or not progress.request.is_prewarm:  # the engine may have declined to read it
                endpoint.note_success()
        except CancelledError:  # the endpoint is not at fault
            if progress.has_begun:
                endpoint.note_success()
            raise
        except _LOST as error:
            if not _is_wait(progress.request, error):
                self._probes.eject(endpoint, error)
            raise
        except EngineFault as error:
            if not progress.request.is_prewarm:
                self._probes.fault(endpoint, error)
            raise
        finally:
            endpoint.in_flight -= 1
            progress.leave()


def _is_wait(request: GenerationRequest, error: AntiphonError) -> bool:
    """Whether an error says only that a prompt of the lowest priority had to wait for others."""
    return request.is_prewarm and isinstance(error, EngineTimeout)


class _Progress:
    """The progress of one generation over its endpoints."""

    def __init__(self, request: GenerationRequest, deliver: Deliver, clock: Clock) -> None:
        self.request = request
        self.has_begun = False
        self.ids: list[int] = []
        self._deliver = deliver
        self._clock = clock
        self._has_ended = False
        self._stop_ids = frozenset(request.stop_ids)
        self._placed: PlacedPrompt | None = None
        """The prompt at its present endpoint."""
        self._has_output = False
        """Whether the present endpoint has sent something."""

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to generate: an error then only hit the end of the stream."""
        return self._has_ended or len(self.ids) >= self.request.max_tokens

    def place(self, chosen: Chosen) -> None:
        """Begins the work of an endpoint."""
        self._has_output = False
        now_s, now_ms = self._clock.monotonic(), self._clock.now_ms()
        self._placed = PlacedPrompt(chosen, self.request, now_s, now_ms=now_ms)

    def leave(self) -> None:
        """Ends the work of an endpoint."""
        if self._placed is not None:
            self._placed.end()
            self._placed = None

    def deliver(self, chunks: Sequence[EngineChunk]) -> bool:
        """Passes chunks on and records their ids."""
        if not self._has_output:
            self._note_output()
        loss = None
        for chunk in chunks:
            self._has_ended = self._has_ended or chunk.finish is not None
            if isinstance(chunk, TokenChunk):
                self.ids += chunk.ids
                self._has_ended = self._has_ended or not self._stop_ids.isdisjoint(chunk.ids)
                if chunk.facts is not None:
                    loss = loss or self._learn(chunk.facts)
            elif chunk.usage is not None:
                loss = loss or self._learn(EngineFacts(chunk.usage.cached_tokens))
        if loss is not None:
            chunks = [_with_loss(chunk, loss) for chunk in chunks]
        is_wanted = self._deliver(chunks)
        self._has_ended = self._has_ended or not is_wanted
        return is_wanted

    def _note_output(self) -> None:
        self.has_begun = self._has_output = True
        if self._placed is not None:
            self._placed.note_output(self._clock.monotonic())

    def _learn(self, facts: EngineFacts) -> Loss | None:
        return self._placed.learn(facts, self._clock.monotonic()) if self._placed is not None else None

    def rest(self) -> GenerationRequest:
        """The request for the tokens that are still to be generated."""
        if not self.ids:
            return self.request
        return replace(
            self.request,
            prompt=TokenPrompt((*self.request.prompt_as(TokenPrompt).ids, *self.ids)),
            max_tokens=self.request.max_tokens - len(self.ids),
        )


def _with_loss(chunk: EngineChunk, loss: Loss) -> EngineChunk:
    """The chunk with the cause of lost tokens, if it has the facts of the prompt."""
    if isinstance(chunk, TokenChunk):
        return chunk if chunk.facts is None else replace(chunk, facts=replace(chunk.facts, lost_to=loss.value))
    return chunk if chunk.usage is None else replace(chunk, usage=replace(chunk.usage, lost_to=loss.value))
