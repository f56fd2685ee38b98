from __future__ import annotations

import pytest
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter

from antiphon import otlp_tracer


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


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({}, "antiphon-edge"),
        ({"OTEL_RESOURCE_ATTRIBUTES": "service.name=chat,team=a"}, "chat"),
        ({"OTEL_RESOURCE_ATTRIBUTES": "service.name=chat", "OTEL_SERVICE_NAME": "talk"}, "talk"),
    ],
)
def test_the_name_of_the_service_is_the_operators_if_there_is_one(
    given: dict[str, str], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in given.items():
        monkeypatch.setenv(variable, value)
    attributes = otlp_tracer.resource_of(service="antiphon-edge", version="1.2").attributes
    assert (attributes["service.name"], attributes["service.version"]) == (name, "1.2")
