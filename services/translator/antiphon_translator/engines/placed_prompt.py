"""One prompt at the endpoint that was chosen for it: its part of the load, and what its output teaches of the cache."""

from __future__ import annotations

from antiphon_translator.engines.endpoint_cache import MISS_BLOCKS_MIN
from antiphon_translator.engines.endpoint_choice import Chosen
from antiphon_translator.generation import EngineFacts, GenerationRequest
from antiphon_translator.lineage import cache_loss
from antiphon_translator.lineage.cache_loss import BLOCK_TOKENS, Loss
from antiphon_translator.placement import PlacementHint, placement_of


class PlacedPrompt:
    """A prompt at its endpoint, from the choice to the end of the generation. Times are of a monotonic clock, in
    seconds."""

    def __init__(self, chosen: Chosen, request: GenerationRequest, now_s: float, *, now_ms: int = 0) -> None:
        """`now_ms` is Unix time, as in the hints of the request."""
        self._placement = placement_of(chosen.endpoint.name)
        self._now_ms = now_ms
        self._cache = chosen.endpoint.cache
        self._held = chosen.held
        self._request = request
        self._started_s = now_s
        self._output_s: float | None = None
        self._is_alone = self._cache.waiting_tokens(now_s, 1) < 1
        self._has_facts = False
        self._backlog = self._rest_of(chosen.held.tokens)
        added = self._backlog if chosen.held.age_s is not None else self._rest_of(0.0)
        self._cache.place(self._backlog, added, now_s)

    def note_output(self, now_s: float) -> None:
        """Notes the first output: the prompt is prefilled, and the endpoint has its root prefix."""
        self._output_s = now_s
        self._leave_backlog()
        if self._request.root is not None:
            self._cache.note_root(self._request.root.key, now_s)

    def learn(self, facts: EngineFacts, now_s: float) -> Loss | None:
        """Learns from the facts that the engine reports, at their first report with cached tokens. Returns the cause if
        fewer tokens were cached than the longest beginning of the prompt has."""
        if facts.cached_tokens is None or self._has_facts:
            return None
        self._has_facts = True
        longest = self._request.placement[0] if self._request.placement else None
        is_lost = longest is not None and facts.cached_tokens < longest.tokens
        loss = self._loss(longest, facts.cached_tokens, now_s) if longest is not None and is_lost else None
        if self._held.age_s is not None:
            self._cache.note_hit(
                self._held.tokens, facts.cached_tokens, self._held.age_s, now_s, self._request.block_tokens
            )
        self._measure(facts.cached_tokens, facts.prefill_ns)
        return loss

    def _loss(self, longest: PlacementHint, cached: int, now_s: float) -> Loss:
        """The cause for which the longest beginning was not cached."""
        block = self._request.block_tokens or BLOCK_TOKENS
        if longest.tokens - cached <= block:
            return Loss.BLOCK
        if cache_loss.is_elsewhere(longest, self._placement):
            return Loss.OTHER_REPLICA
        if longest.tokens < MISS_BLOCKS_MIN * block:
            return Loss.UNKNOWN
        root_tokens = self._request.root.tokens + block if self._request.root is not None else block
        age_s = max(self._now_ms - longest.at_ms, 0) / 1000
        return self._cache.loss(cached, age_s, now_s, root_tokens=root_tokens)

    def end(self) -> None:
        """Ends the generation, however it went. Without a report the rate is learned from the expectation."""
        self._leave_backlog()
        if not self._has_facts:
            self._measure(self._held.tokens, None)

    def _measure(self, cached: float, prefill_ns: int | None) -> None:
        if prefill_ns is not None:
            self._cache.measure(self._rest_of(cached), prefill_ns / 1e9)
        elif self._is_alone and self._output_s is not None:  # else the time includes waiting for other prompts
            self._cache.measure(self._rest_of(cached), self._output_s - self._started_s)

    def _rest_of(self, cached: float) -> float:
        return max(self._request.prompt_tokens - cached, 0.0)

    def _leave_backlog(self) -> None:
        self._cache.backlog_tokens -= self._backlog
        self._backlog = 0.0
