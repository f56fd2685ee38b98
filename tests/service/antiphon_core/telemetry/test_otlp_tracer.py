from __future__ import annotations

import pytest

from antiphon_core.telemetry import otlp_tracer


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
def test_a_tracer_opens_with_each_otlp_protocol(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    environ = {"OTEL_EXPORTER_OTLP_PROTOCOL": protocol}
    otlp_tracer.open_tracer(environ, service="antiphon-edge", version="1").close()
