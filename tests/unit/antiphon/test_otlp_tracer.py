from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON

from antiphon import otlp_tracer
from antiphon.otlp_tracer import OtlpTracer
from antiphon_core.config import SettingsError
from antiphon_core.telemetry.spans import HTTP_ROUTE, SpanKind
from antiphon_core.telemetry.trace_context import TraceContext

PARENT = TraceContext("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", is_sampled=True, state="a=1")


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def tracer(exporter: InMemorySpanExporter) -> Iterator[OtlpTracer]:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = OtlpTracer(provider, exporter, version="1")
    yield tracer
    tracer.close()


def test_a_span_is_below_its_parent_and_keeps_its_state(tracer: OtlpTracer, exporter: InMemorySpanExporter) -> None:
    span = tracer.start("GET", SpanKind.SERVER, {}, PARENT)
    span.rename("GET /x")
    span.note({HTTP_ROUTE: "/x"})
    span.end()
    (found,) = exporter.get_finished_spans()
    assert (found.name, found.kind, dict(found.attributes or {})) == (
        "GET /x",
        trace.SpanKind.SERVER,
        {HTTP_ROUTE: "/x"},
    )
    assert found.parent is not None
    assert trace.format_span_id(found.parent.span_id) == PARENT.span_id
    assert (span.trace.trace_id, span.trace.is_sampled, span.trace.state) == (PARENT.trace_id, True, "a=1")


def test_a_span_without_a_parent_begins_a_trace(tracer: OtlpTracer, exporter: InMemorySpanExporter) -> None:
    with trace.use_span(trace.NonRecordingSpan(otlp_tracer._as_otel(PARENT))):  # the span of a library in this thread
        tracer.start("GET", SpanKind.SERVER, {}, None).end()
    (found,) = exporter.get_finished_spans()
    assert found.parent is None


def test_a_span_of_an_unsampled_parent_is_not_recorded(tracer: OtlpTracer, exporter: InMemorySpanExporter) -> None:
    unsampled = TraceContext(PARENT.trace_id, PARENT.span_id, is_sampled=False)
    span = tracer.start("GET", SpanKind.SERVER, {}, unsampled)
    span.rename("POST")
    span.note({HTTP_ROUTE: "/x"})
    span.fail("EngineFault")
    span.end()
    assert not exporter.get_finished_spans()
    assert span.trace == unsampled


def test_a_failure_is_exported_by_its_name_alone(tracer: OtlpTracer, exporter: InMemorySpanExporter) -> None:
    span = tracer.start("GET", SpanKind.CLIENT, {}, None)
    span.fail("EngineFault")
    span.end()
    (found,) = exporter.get_finished_spans()
    assert dict(found.attributes or {}) == {"error.type": "EngineFault"}
    assert (found.status.is_ok, found.status.description, found.events) == (False, None, ())


def test_a_protocol_that_is_not_spoken_is_refused() -> None:
    with pytest.raises(SettingsError, match="must be grpc or http/protobuf"):
        otlp_tracer.open_tracer({"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}, service="s", version="1")


def test_a_sampler_that_decides_by_itself_is_asked_for_every_span(exporter: InMemorySpanExporter) -> None:
    provider = TracerProvider(sampler=ALWAYS_ON)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = OtlpTracer(provider, exporter, version="1")
    tracer.start("GET", SpanKind.SERVER, {}, TraceContext(PARENT.trace_id, PARENT.span_id, is_sampled=False)).end()
    assert len(exporter.get_finished_spans()) == 1
    tracer.close()


class HungExporter(SpanExporter):
    """Waits for a collector that never answers, until it is shut down."""

    def __init__(self) -> None:
        self.was_shut_down = threading.Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.was_shut_down.wait()
        return SpanExportResult.FAILURE

    def shutdown(self) -> None:
        self.was_shut_down.set()


def test_closing_a_tracer_does_not_wait_for_a_collector_that_never_answers(caplog: pytest.LogCaptureFixture) -> None:
    """The SDK itself waits 30 s for the export before it shuts the exporter down."""
    provider, hung = TracerProvider(), HungExporter()
    processor = BatchSpanProcessor(hung)
    provider.add_span_processor(processor)
    tracer = OtlpTracer(provider, hung, version="1", close_timeout_s=0.01)
    tracer.start("GET", SpanKind.SERVER, {}, None).end()
    tracer.close()
    assert hung.was_shut_down.is_set()
    assert "could not be exported within 0.01 s" in caplog.text
