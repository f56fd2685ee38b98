"""Spans of what runs now. Without a tracer, which `OTEL_*` variables turn on (otlp.py), nothing is recorded: the trace
that a call came with is passed on as it is.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from antiphon_core.telemetry import correlation
from antiphon_core.telemetry.spans import SpanKind
from antiphon_core.telemetry.trace_context import TraceContext

Value = str | int | float | bool | Sequence[str]
NOTHING: Mapping[str, Value] = {}


class Span(Protocol):
    """A piece of work."""

    @property
    def trace(self) -> TraceContext:
        """Where the span is in its trace."""

    def rename(self, name: str) -> None:
        """Gives it the name that it should have had: a route is known late."""

    def note(self, facts: Mapping[str, Value]) -> None:
        """Adds attributes, with names of `spans.py`."""

    def fail(self, error_type: str) -> None:
        """Marks the work as failed. `error_type` is the name of an error; never a message, which may quote callers."""

    def end(self) -> None:
        """The work is over."""


class Tracer(Protocol):
    """A recorder of spans."""

    def start(self, name: str, kind: SpanKind, facts: Mapping[str, Value], parent: TraceContext | None) -> Span:
        """A span that begins now."""

    def close(self) -> None:
        """Exports what has ended. May wait for the network."""


class _NoSpan:
    trace = TraceContext("0" * 32, "0" * 16, is_sampled=False)

    def rename(self, name: str) -> None:
        pass

    def note(self, facts: Mapping[str, Value]) -> None:
        pass

    def fail(self, error_type: str) -> None:
        pass

    def end(self) -> None:
        pass


_NO_SPAN: Span = _NoSpan()
_tracer: Tracer | None = None


def set_tracer(tracer: Tracer | None) -> None:
    """Has all spans of this process recorded by `tracer` from now on; by nobody with None."""
    global _tracer  # noqa: PLW0603 - one for each process, as its metrics are
    _tracer = tracer


def is_on() -> bool:
    """Whether spans are recorded."""
    return _tracer is not None


def begin(name: str, kind: SpanKind, facts: Mapping[str, Value] = NOTHING) -> Span:
    """A span below the one that this task is in. It must be ended, and is nobody's parent until
    `correlation.note(trace=...)` says so."""
    return _tracer.start(name, kind, facts, correlation.current().trace) if _tracer is not None else _NO_SPAN


def span(name: str, kind: SpanKind, facts: Mapping[str, Value] = NOTHING) -> AbstractContextManager[Span]:
    """Records the work inside this context, below the span that it is part of. Calls to other services that are made
    inside name it as their parent. An exception marks it as failed, by the name of its class."""
    return _NO_CONTEXT if _tracer is None else _SpanContext(name, kind, facts)


def leave_out() -> None:
    """Has nothing recorded of what this task does from here on, here and in the services that it calls: for polls, most
    of which find nothing. A sampler that ignores parents decides about them as about all else."""
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


class _NoContext:
    def __enter__(self) -> Span:
        return _NO_SPAN

    def __exit__(self, *_: object) -> None:
        pass


_NO_CONTEXT = _NoContext()
