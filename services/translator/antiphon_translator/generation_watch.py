"""Metrics and spans of one turn in the translator: prompt, generations, tokens."""

from __future__ import annotations

import logging
from asyncio import CancelledError
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter

from antiphon_core.ports.translator import Usage
from antiphon_core.telemetry import correlation, metrics, spans, tracing
from antiphon_core.telemetry.spans import SpanKind
from antiphon_translator.lineage.ancestors import NO_ANCESTORS
from antiphon_translator.turn.cache_retention import Hint, Outcome
from antiphon_translator.turn.turn_prompt import TurnPrompt

log = logging.getLogger(__name__)


class GenerationWatch:
    """The metrics of one turn. Use once; everything happens inside `running`."""

    def __init__(self, model: str, response_id: str) -> None:
        self.is_waiting = False
        """Whether a generation has begun and has no output yet. Its first output then calls `note_first_output`."""
        self._model = model
        self._response_id = response_id
        self._usage: Usage | None = None
        self._started_s = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Measures the whole turn."""
        correlation.note(response_id=self._response_id)
        facts = {
            spans.OPERATION: spans.CHAT,
            spans.PROVIDER: spans.TURN_PROVIDER,
            spans.REQUEST_MODEL: self._model,
            spans.RESPONSE_ID: self._response_id,
        }
        in_flight = metrics.GENERATIONS_IN_FLIGHT.of(self._model)
        in_flight.add()
        try:
            with tracing.span(f"{spans.CHAT} {self._model}", SpanKind.INTERNAL, facts) as span:
                yield
                if self._usage is not None:
                    span.note(_usage_facts(self._usage))
        finally:
            in_flight.add(-1)

    @contextmanager
    def building_prompt(self) -> Iterator[None]:
        started_s = perf_counter()
        with tracing.span(spans.PROMPT, SpanKind.INTERNAL):
            yield
        metrics.PROMPT.of(self._model).observe(perf_counter() - started_s)

    @contextmanager
    def generating(self) -> Iterator[None]:
        """Measures one generation of the engine; a turn may need several."""
        self._started_s = perf_counter()
        self.is_waiting = True
        outcome = "failed"
        try:
            yield
            outcome = "ok"
        except CancelledError:
            outcome = "cancelled"
            raise
        finally:
            duration_s = perf_counter() - self._started_s
            trace_id = correlation.sampled_trace_id()
            metrics.ENGINE_DURATION.of(self._model, outcome).observe(duration_s, trace_id)

    def note_first_output(self) -> None:
        """Records the time to the engine's first output."""
        self.is_waiting = False
        metrics.ENGINE_FIRST_OUTPUT.of(self._model).observe(perf_counter() - self._started_s)

    def note_usage(self, usage: Usage | None) -> None:
        """Counts the tokens of the turn, and the times that its engine measured."""
        if usage is None:
            return
        self._usage = usage
        for kind, count in (
            ("input", usage.input_tokens),
            ("cached", usage.cached_tokens),
            ("output", usage.output_tokens),
            ("reasoning", usage.reasoning_tokens),
        ):
            if count is not None:
                metrics.TOKENS.of(self._model, kind).add(count)
        for instrument, duration_ns in (
            (metrics.ENGINE_QUEUE, usage.times.queue_ns),
            (metrics.ENGINE_PREFILL, usage.times.prefill_ns),
        ):
            if duration_ns is not None:
                instrument.of(self._model).observe(duration_ns / 1e9)

    def note_hints(self, hints: Sequence[tuple[Hint, Outcome]]) -> None:
        """Counts the hints about the KV cache, each once, and what became of them."""
        for hint, outcome in hints:
            metrics.CACHE_HINTS.of(self._model, hint.value, outcome.value).add()

    def note_prompt(self, prompt: TurnPrompt) -> None:
        """Counts what the prompt got from earlier turns, and what of it was in the engine's cache. `note_usage` comes
        first."""
        if prompt.encoded is not None:
            if prompt.ancestors is not NO_ANCESTORS:
                for outcome, count in prompt.ancestors.outcomes.items():
                    metrics.LINEAGES.of(outcome.value).add(count)
            metrics.SPLICED_TOKENS.of().add(prompt.encoded.spliced)
        if self._usage is None or self._usage.cached_tokens is None:
            return
        read, cached = self._usage.input_tokens, self._usage.cached_tokens
        lost = max(min(prompt.expected_tokens, read) - cached, 0)
        for kind, count in (("cached", cached), ("lost", lost), ("new", read - cached - lost)):
            metrics.CACHE_TOKENS.of(self._model, kind).add(count)
        if lost:
            metrics.LOST_TOKENS.of(self._model, prompt.loss_of(self._usage).value).add(lost)

    def note_check(self, mismatch: str | None, *, is_unchecked: bool) -> None:
        """Counts and logs an answer that does not match its format, and counts one that was not checked. `mismatch` is
        None if it matches."""
        if is_unchecked:
            metrics.FORMAT_UNCHECKED.of(self._model).add()
        if mismatch is not None:
            metrics.FORMAT_MISMATCHES.of(self._model).add()
            log.warning("the answer of %s does not match its format: %s", self._response_id, mismatch)


def _usage_facts(usage: Usage) -> dict[str, tracing.Value]:
    cached = {} if usage.cached_tokens is None else {spans.CACHED_TOKENS: usage.cached_tokens}
    return {spans.INPUT_TOKENS: usage.input_tokens, spans.OUTPUT_TOKENS: usage.output_tokens, **cached}
