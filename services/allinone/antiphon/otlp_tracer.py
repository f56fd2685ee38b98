"""A tracer that records spans with OpenTelemetry's SDK, which exports them in batches from its own thread.

Only `otlp.py` imports this module, and only if traces are on.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping

from opentelemetry import trace
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.sampling import ParentBased

from antiphon_core.config import SettingsError
from antiphon_core.telemetry.spans import ERROR_TYPE, SpanKind
from antiphon_core.telemetry.trace_context import TraceContext
from antiphon_core.telemetry.tracing import Span, UnrecordedSpan, Value

log = logging.getLogger(__name__)

SCOPE = "antiphon"
CLOSE_TIMEOUT_S = 2.0
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_KINDS = {
    SpanKind.SERVER: trace.SpanKind.SERVER,
    SpanKind.CLIENT: trace.SpanKind.CLIENT,
    SpanKind.CONSUMER: trace.SpanKind.CONSUMER,
    SpanKind.INTERNAL: trace.SpanKind.INTERNAL,
}


def open_tracer(environ: Mapping[str, str], *, service: str, version: str) -> OtlpTracer:
    """The tracer of a process. SettingsError: the exporter for the protocol is not installed, or there is none."""
    provider = TracerProvider(resource=resource_of(service=service, version=version))
    exporter = _exporter(environ)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return OtlpTracer(provider, exporter, version=version)


def resource_of(*, service: str, version: str) -> Resource:
    """The attributes of this process in traces: those of OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES, and defaults
    for the others. Resource.create would let its argument replace them."""
    given = OTELResourceDetector().detect().attributes
    return Resource.create({SERVICE_NAME: service, SERVICE_VERSION: version, **given})


def _exporter(environ: Mapping[str, str]) -> SpanExporter:
    protocol = next((environ[name] for name in _PROTOCOLS if environ.get(name)), "grpc")
    try:
        if protocol == "grpc":
            from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter

            return GrpcExporter()
        if protocol == "http/protobuf":
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter

            return HttpExporter()
    except ModuleNotFoundError as error:
        raise SettingsError(f"OTLP over {protocol} needs the package '{error.name}'.") from error
    raise SettingsError(f"{_PROTOCOLS[1]}={protocol!r}: must be grpc or http/protobuf.")


class OtlpTracer:
    """Implements tracing.Tracer. `provider` gives its spans to `exporter`."""

    def __init__(
        self,
        provider: TracerProvider,
        exporter: SpanExporter,
        *,
        version: str,
        close_timeout_s: float = CLOSE_TIMEOUT_S,
    ) -> None:
        self._provider = provider
        self._exporter = exporter
        self._close_timeout_s = close_timeout_s
        self._tracer = provider.get_tracer(SCOPE, version)
        self._follows_parents = isinstance(provider.sampler, ParentBased)

    def start(self, name: str, kind: SpanKind, facts: Mapping[str, Value], parent: TraceContext | None) -> Span:
        if parent is not None and not parent.is_sampled and self._follows_parents:
            return UnrecordedSpan(parent)  # 14 us faster than the SDK's
        # An empty context, so that a span never becomes the child of a span that a library has started.
        context = trace.set_span_in_context(trace.NonRecordingSpan(_as_otel(parent)) if parent else trace.INVALID_SPAN)
        return _OtlpSpan(self._tracer.start_span(name, context, _KINDS[kind], facts))

    def close(self) -> None:
        """Exports the spans that ended last, for `close_timeout_s` at most: the SDK itself waits 30 s for a collector
        that is down, and a process that stops would be killed meanwhile."""
        closing = threading.Thread(target=self._provider.shutdown, name="close of traces", daemon=True)
        closing.start()
        closing.join(self._close_timeout_s)
        if closing.is_alive():
            log.warning("the last spans could not be exported within %g s", self._close_timeout_s)
            self._exporter.shutdown()  # ends the retries, and gRPC's call
            closing.join(self._close_timeout_s)


class _OtlpSpan:
    """One recorded span. A failure is recorded by the name of the error only: a message may quote a caller's
    content."""

    def __init__(self, span: trace.Span) -> None:
        self._span = span
        self.trace = _from_otel(span.get_span_context())

    def rename(self, name: str) -> None:
        self._span.update_name(name)

    def note(self, facts: Mapping[str, Value]) -> None:
        self._span.set_attributes(facts)

    def fail(self, error_type: str) -> None:
        self._span.set_attribute(ERROR_TYPE, error_type)
        self._span.set_status(trace.StatusCode.ERROR)

    def end(self) -> None:
        self._span.end()


def _as_otel(context: TraceContext) -> trace.SpanContext:
    return trace.SpanContext(
        int(context.trace_id, 16),
        int(context.span_id, 16),
        is_remote=True,
        trace_flags=trace.TraceFlags(trace.TraceFlags.SAMPLED if context.is_sampled else trace.TraceFlags.DEFAULT),
        trace_state=trace.TraceState.from_header([context.state]) if context.state else None,
    )


def _from_otel(context: trace.SpanContext) -> TraceContext:
    return TraceContext(
        trace.format_trace_id(context.trace_id),
        trace.format_span_id(context.span_id),
        context.trace_flags.sampled,
        context.trace_state.to_header(),
    )
