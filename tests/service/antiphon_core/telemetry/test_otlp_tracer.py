from __future__ import annotations

import pytest
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter

from antiphon_core.telemetry import otlp_tracer


@pytest.mark.parametrize(("protocol", "package"), [("grpc", ".grpc."), ("http/protobuf", ".http.")])
def test_a_tracer_exports_with_the_otlp_protocol_of_its_variable(
    protocol: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    exporters: list[SpanExporter] = []

    def processor(exporter: SpanExporter) -> BatchSpanProcessor:
        exporters.append(exporter)
        return BatchSpanProcessor(exporter)

    monkeypatch.setattr(otlp_tracer, "BatchSpanProcessor", processor)
    environ = {"OTEL_EXPORTER_OTLP_PROTOCOL": protocol}
    otlp_tracer.open_tracer(environ, service="antiphon-edge", version="1").close()
    assert [package in type(each).__module__ for each in exporters] == [True]
