from __future__ import annotations

import asyncio
import urllib.request

import pytest

from antiphon import otlp
from antiphon.metrics_settings import MetricsSettings
from antiphon.parts.telemetry import TelemetryPart
from antiphon_core.telemetry import tracing
from antiphon_core.telemetry.exposition import Exposition
from tests.support.recorded_spans import RecordingTracer


def part(number: int | None = None, **settings: int) -> TelemetryPart:
    return TelemetryPart(MetricsSettings(**settings), Exposition(["store"]), ["store"], number=number)  # type: ignore[arg-type]


async def test_the_metrics_of_the_process_are_served_on_their_port() -> None:
    telemetry = part(port=0)
    await telemetry.start()
    try:
        url = f"http://127.0.0.1:{telemetry.metrics_port}/metrics"
        text = await asyncio.to_thread(lambda: urllib.request.urlopen(url).read())
    finally:
        await telemetry.stop()
    assert b"antiphon_store_conflicts_total" in text
    assert b"antiphon_turns_in_flight" not in text


def test_each_worker_process_gets_its_own_metrics_port() -> None:
    assert [part(number, port=9100).metrics_port for number in (None, 1, 2)] == [9100, 9100, 9101]
    assert part(2).metrics_port is None


async def test_spans_are_recorded_while_the_part_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    tracer = RecordingTracer()
    monkeypatch.setattr(otlp, "tracer_of", lambda *_, **__: tracer)
    telemetry = part()
    await telemetry.start()
    assert tracing.is_on()
    await telemetry.stop()
    assert (tracing.is_on(), tracer.is_closed) == (False, True)


async def test_a_port_that_cannot_be_used_is_named() -> None:
    first = part(port=0)
    await first.start()
    try:
        taken = first.metrics_port or 0
        with pytest.raises(OSError, match=f"Cannot serve metrics on 127.0.0.1 port {taken}: Address already in use"):
            await part(port=taken).start()
    finally:
        await first.stop()
    with pytest.raises(OSError, match="Cannot serve metrics on 127.0.0.1 port 65537"):
        await part(port=65535, number=3).start()
