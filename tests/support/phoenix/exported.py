"""Exported spans, read from OTLP requests with OpenTelemetry's own protocol messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span


@dataclass(frozen=True)
class ExportedSpan:
    """A span and its service."""

    service: str
    name: str
    kind: str
    trace_id: str
    span_id: str
    parent_id: str
    attributes: dict[str, Any]
    is_error: bool


def spans_of(requests: Iterable[bytes]) -> Iterator[ExportedSpan]:
    for request in requests:
        for of_resource in ExportTraceServiceRequest.FromString(request).resource_spans:
            resource = {each.key: _value(each.value) for each in of_resource.resource.attributes}
            for scope in of_resource.scope_spans:
                yield from (_read(resource["service.name"], span) for span in scope.spans)


def _read(service: str, span: Span) -> ExportedSpan:
    return ExportedSpan(
        service=service,
        name=span.name,
        kind=Span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_"),
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        attributes={each.key: _value(each.value) for each in span.attributes},
        is_error=span.status.code == span.status.STATUS_CODE_ERROR,
    )


def _value(value: Any) -> Any:
    return getattr(value, value.WhichOneof("value"))
