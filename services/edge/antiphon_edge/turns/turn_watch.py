"""Metrics and spans of one turn: how long it took, when its output came, how it ended."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from time import perf_counter

from antiphon_core import response
from antiphon_core.jsons import loads
from antiphon_core.ports.store import Status
from antiphon_core.ports.translator import Final
from antiphon_core.telemetry import correlation, metrics, spans, tenants, tracing
from antiphon_core.telemetry.spans import SpanKind
from antiphon_edge import phases
from antiphon_edge.turns.accepted_turn import AcceptedTurn

SPAN = "turn"
REJECTED = "rejected"
"""The status of a turn that ended with an error before its first event."""
LEFT = "left"
"""The status of a turn that another process continues."""
PAUSES_MAX = 64
"""The pauses between tokens that are kept until they are counted together: one by one, counting them costs as much as
all else that is measured."""

_OUTPUT = b"event: response.output_item."
"""The beginning of the first batch with output. The batches before it open the stream."""


class Delivery(StrEnum):
    """The ways in which the events of a turn are delivered."""

    CALLER = "caller"
    KEYED = "keyed"
    BACKGROUND = "background"


class TurnWatch:
    """The metrics and the span of one turn. `note_batch` takes 0.2 us, and is called with every batch."""

    __slots__ = ("_accepted", "_delivery", "_final", "_last_s", "_model", "_pauses_s", "_started_s")

    def __init__(self, accepted: AcceptedTurn, delivery: Delivery) -> None:
        self._accepted = accepted
        self._delivery = delivery
        self._started_s = accepted.started_s
        self._model = ""
        self._last_s = 0.0
        self._pauses_s: list[float] = []
        self._final: Final | None = None

    def note_batch(self, frames: bytes) -> None:
        """Measures the time to the first output, and then the time between two batches."""
        if self._last_s:
            now_s = perf_counter()
            self._pauses_s.append(now_s - self._last_s)
            self._last_s = now_s
            if len(self._pauses_s) == PAUSES_MAX:
                self._count_pauses()
        elif frames.startswith(_OUTPUT):
            self._first_output_came()

    def note_end(self, final: Final) -> None:
        """Notes the final state of the turn, whose record is safe."""
        self._final = final
        self._model = self._accepted.model
        for phase, duration_ns in (
            (phases.ENGINE_QUEUE, final.times.queue_ns),
            (phases.PREFILL, final.times.prefill_ns),
        ):
            if duration_ns is not None:
                phases.note(phase, duration_ns / 1e9)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Measures the whole turn. Logs and spans of the block carry the id of its response."""
        response_id = self._accepted.turn.response_id
        correlation.note(response_id=response_id)
        in_flight = metrics.TURNS_IN_FLIGHT.of(self._delivery)
        in_flight.add()
        facts = {
            spans.DELIVERY: self._delivery.value,
            spans.RESPONSE_ID: response_id,
            spans.REQUEST_MODEL: self._accepted.model,
        }
        status = LEFT
        try:
            with tracing.span(SPAN, SpanKind.INTERNAL, facts) as span:
                try:
                    yield
                except asyncio.CancelledError:
                    status = Status.CANCELLED.value if self._delivery is Delivery.CALLER else LEFT
                    raise
                except Exception:
                    status = LEFT if self._last_s or self._delivery is Delivery.BACKGROUND else REJECTED
                    raise
                finally:
                    status = self._final.status.value if self._final is not None else status
                    span.note({spans.STATUS: status})
                    self._count_end(status)
        finally:
            in_flight.add(-1)

    def _first_output_came(self) -> None:
        self._last_s = perf_counter()
        self._model = self._accepted.model
        duration_s = self._last_s - self._started_s
        trace_id = correlation.sampled_trace_id()
        metrics.FIRST_TOKEN.of(self._delivery, self._model).observe(duration_s, trace_id)
        phases.note(phases.FIRST_TOKEN, duration_s)

    def _count_pauses(self) -> None:
        metrics.INTER_TOKEN.of(self._model).observe_all(self._pauses_s)
        self._pauses_s.clear()

    def _count_end(self, status: str) -> None:
        """Counts the end of the turn. The model is named only if it answered: its name may be any text before."""
        if self._pauses_s:
            self._count_pauses()
        duration_s = perf_counter() - self._started_s
        trace_id = correlation.sampled_trace_id()
        metrics.TURN_DURATION.of(self._delivery, self._model, status).observe(duration_s, trace_id)
        if tenants.PROCESS.is_on:
            tenants.PROCESS.turn_ended(self._accepted.tenant, status)
        if self._final is not None and self._final.status is Status.FAILED:
            error = response.error_of(loads(self._final.body))
            metrics.TURN_FAILURES.of(self._delivery, type(error).__name__).add()
