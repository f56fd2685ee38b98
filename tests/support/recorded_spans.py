"""A tracer that keeps its spans, for tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from antiphon_core.telemetry import correlation, tracing
from antiphon_core.telemetry.correlation import Correlation
from antiphon_core.telemetry.spans import SpanKind
from antiphon_core.telemetry.trace_context import TraceContext
from antiphon_core.telemetry.tracing import Value

TRACE_ID = "1" * 32


@dataclass
class RecordedSpan:
    name: str
    kind: SpanKind
    facts: dict[str, Value]
    parent: TraceContext | None
    trace: TraceContext
    error: str = ""
    has_ended: bool = False

    def rename(self, name: str) -> None:
        self.name = name

    def note(self, facts: Mapping[str, Value]) -> None:
        self.facts |= facts

    def fail(self, error_type: str) -> None:
        self.error = error_type

    def end(self) -> None:
        self.has_ended = True


@dataclass
class RecordingTracer:
    """A tracer that records its spans and numbers them from 1."""

    spans: list[RecordedSpan] = field(default_factory=list)
    is_closed: bool = False

    def start(self, name: str, kind: SpanKind, facts: Mapping[str, Value], parent: TraceContext | None) -> RecordedSpan:
        trace_id = parent.trace_id if parent is not None else TRACE_ID
        trace = TraceContext(trace_id, f"{len(self.spans) + 1:016x}", is_sampled=True)
        span = RecordedSpan(name, kind, dict(facts), parent, trace)
        self.spans.append(span)
        return span

    def close(self) -> None:
        self.is_closed = True

    def parents(self) -> dict[str, str]:
        """Returns the name of each span's parent, by the name of the span."""
        names = {span.trace.span_id: span.name for span in self.spans}
        return {span.name: names.get(span.parent.span_id, "") if span.parent else "" for span in self.spans}


@contextmanager
def recorded() -> Iterator[RecordingTracer]:
    """Records all spans of this process, in a task without a current span."""
    tracer = RecordingTracer()
    correlation.begin(Correlation())
    tracing.set_tracer(tracer)
    try:
        yield tracer
    finally:
        tracing.set_tracer(None)
        correlation.begin(Correlation())
