from __future__ import annotations

import pytest

from antiphon_core.telemetry import correlation, tracing
from antiphon_core.telemetry.correlation import Correlation
from antiphon_core.telemetry.spans import SpanKind
from antiphon_core.telemetry.trace_context import TraceContext
from tests.support.recorded_spans import recorded

OUTER = TraceContext("a" * 32, "b" * 16, is_sampled=True)


def test_spans_inside_each_other_are_children() -> None:
    with recorded() as tracer:
        correlation.begin(Correlation("req_1", trace=OUTER))
        with tracing.span("one", SpanKind.SERVER, {"http.route": "/"}) as one:
            assert correlation.current() == Correlation("req_1", trace=one.trace)
            with tracing.span("two", SpanKind.CLIENT):
                pass
        assert correlation.current().trace == OUTER
    assert tracer.parents() == {"one": "", "two": "one"}
    assert tracer.spans[0].parent == OUTER
    assert all(span.has_ended and not span.error for span in tracer.spans)


def test_an_error_is_named_and_never_quoted() -> None:
    with recorded() as tracer, pytest.raises(ValueError, match="secret"), tracing.span("one", SpanKind.SERVER):
        raise ValueError("secret")
    (span,) = tracer.spans
    assert (span.error, span.facts, span.has_ended) == ("ValueError", {}, True)


def test_ids_that_are_noted_inside_a_span_stay() -> None:
    with recorded(), tracing.span("one", SpanKind.SERVER):
        correlation.note(response_id="resp_1")
        with tracing.span("two", SpanKind.CLIENT):
            pass
        assert correlation.current().response_id == "resp_1"


def test_a_begun_span_is_not_the_parent_of_the_next() -> None:
    with recorded() as tracer:
        tracing.begin("one", SpanKind.CLIENT)
        tracing.begin("two", SpanKind.CLIENT)
    assert tracer.parents() == {"one": "", "two": ""}


def test_polls_name_a_parent_that_is_not_sampled() -> None:
    with recorded():
        tracing.leave_out()
        first = correlation.current().trace
        tracing.leave_out()
        second = correlation.current().trace
    assert first is not None
    assert second is not None
    assert not first.is_sampled
    assert not second.is_sampled
    assert first.trace_id != second.trace_id
    assert TraceContext.parse(dict(first.headers())["traceparent"]) == first


def test_without_a_tracer_polls_name_no_parent() -> None:
    correlation.begin(Correlation())
    tracing.leave_out()
    assert correlation.current().trace is None


def test_without_a_tracer_the_trace_is_passed_on_as_it_came() -> None:
    correlation.begin(Correlation(trace=OUTER))
    with tracing.span("one", SpanKind.SERVER) as span:
        span.rename("other")
        span.note({})
        span.fail("x")
        assert correlation.current().trace == OUTER
    assert not tracing.is_on()
    correlation.begin(Correlation())
