"""Spans of the work in this process. Without a tracer, which `OTEL_*` variables turn on (otlp.py), nothing is recorded,
and the trace context of an incoming call is passed on unchanged.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from antiphon_core.telemetry import correlation
from antiphon_core.telemetry.spans import SpanKind
from antiphon_core.telemetry.trace_context import TraceContext

Value = str | int | float | bool | Sequence[str]
NOTHING: Mapping[str, Value] = {}


class Span(Protocol):
    """The record of one piece of work."""

    @property
    def trace(self) -> TraceContext:
        """The ids of this span, for calls that have it as their parent."""

    def rename(self, name: str) -> None:
        """Replaces the name, which may be known only later, such as the route of a request."""

    def note(self, facts: Mapping[str, Value]) -> None:
        """Adds attributes. Their names are those in `spans.py`."""

    def fail(self, error_type: str) -> None:
        """Marks the work as failed. `error_type` is the name of an error, never a message, which may quote callers."""

    def end(self) -> None:
        """Ends the span."""


class Tracer(Protocol):
    """A recorder of spans."""

    def start(self, name: str, kind: SpanKind, facts: Mapping[str, Value], parent: TraceContext | None) -> Span:
        """Starts a span now."""

    def close(self) -> None:
        """Exports the spans that have ended. May wait for the network."""


class UnrecordedSpan:
    """A span that nothing records. Calls made within it pass `trace` on."""

    def __init__(self, trace: TraceContext) -> None:
        self.trace = trace

    def rename(self, name: str) -> None:
        pass

    def note(self, facts: Mapping[str, Value]) -> None:
        pass

    def fail(self, error_type: str) -> None:
        pass

    def end(self) -> None:
        pass


_NO_SPAN: Span = UnrecordedSpan(TraceContext("0" * 32, "0" * 16, is_sampled=False))
_tracer: Tracer | None = None


def set_tracer(tracer: Tracer | None) -> None:
    """Records all further spans of this process with `tracer`; None turns recording off."""
    global _tracer  # noqa: PLW0603 - one for each process, as its metrics are
    _tracer = tracer


def is_on() -> bool:
    """Whether spans are recorded."""
    return _tracer is not None


def begin(name: str, kind: SpanKind, facts: Mapping[str, Value] = NOTHING) -> Span:
    """Starts a span as a child of this task's span. The caller must end it. To make it the parent of further spans,
    call `correlation.note(trace=span.trace)`."""
    return _tracer.start(name, kind, facts, correlation.current().trace) if _tracer is not None else _NO_SPAN


def span(name: str, kind: SpanKind, facts: Mapping[str, Value] = NOTHING) -> AbstractContextManager[Span]:
    """A context whose work is recorded as a child of this task's span. Within it, the span is the parent of further
    spans and of calls to other services. An exception marks it as failed, with the name of its class."""
    return _NO_CONTEXT if _tracer is None else _SpanContext(name, kind, facts)


def leave_out() -> None:
    """Excludes the further work of this task from traces, here and in the services that it calls. For polls, most of
    which find nothing. A sampler that ignores parents still decides by itself."""
    if _tracer is not None:
        correlation.note(trace=TraceContext(secrets.token_hex(16), secrets.token_hex(8), is_sampled=False))


class _SpanContext:
    def __init__(self, name: str, kind: SpanKind, facts: Mapping[str, Value]) -> None:
        self._outer = correlation.current().trace
        self._span = begin(name, kind, facts)

    def __enter__(self) -> Span:
        correlation.note(trace=self._span.trace)
        return self._span

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._span.fail(kind.__name__)
        self._span.end()
        correlation.note(trace=self._outer)


_NO_CONTEXT = nullcontext(_NO_SPAN)
