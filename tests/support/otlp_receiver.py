"""A receiver of OTLP over gRPC in this process, built on OpenTelemetry's own protocol messages: what a collector would
have been sent. No collector can be had from the registries that tests install from."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc.aio
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.support.patience import PATIENCE_S


@dataclass(frozen=True)
class Received:
    """A span that was exported, and the service that it is of."""

    service: str
    name: str
    kind: str
    trace_id: str
    span_id: str
    parent_id: str
    attributes: dict[str, Any]
    is_error: bool


@dataclass
class OtlpReceiver(trace_service_pb2_grpc.TraceServiceServicer):
    """Keeps all that it is sent."""

    spans: list[Received] = field(default_factory=list)
    exported: list[bytes] = field(default_factory=list)
    """The requests, as they came."""
    endpoint: str = ""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def Export(self, request: Any, context: Any) -> Any:
        self.exported.append(request.SerializeToString())
        for of_resource in request.resource_spans:
            resource = {each.key: _value(each.value) for each in of_resource.resource.attributes}
            for scope in of_resource.scope_spans:
                self.spans += [_received(resource["service.name"], span) for span in scope.spans]
        self._changed.set()
        return trace_service_pb2.ExportTraceServiceResponse()

    def trace(self, trace_id: str) -> list[Received]:
        """The spans of one trace."""
        return [span for span in self.spans if span.trace_id == trace_id]

    async def until(self, trace_id: str, count: int) -> list[Received]:
        """The spans of a trace, once there are so many."""
        async with asyncio.timeout(PATIENCE_S):
            while len(self.trace(trace_id)) < count:
                self._changed.clear()
                await self._changed.wait()
        return self.trace(trace_id)


def _received(service: str, span: Span) -> Received:
    return Received(
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


@asynccontextmanager
async def otlp_receiver() -> AsyncIterator[OtlpReceiver]:
    """A running receiver; `endpoint` is for OTEL_EXPORTER_OTLP_ENDPOINT."""
    receiver, server = OtlpReceiver(), grpc.aio.server()
    add: Any = trace_service_pb2_grpc.add_TraceServiceServicer_to_server
    add(receiver, server)
    receiver.endpoint = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    try:
        yield receiver
    finally:
        await server.stop(None)
