"""The telemetry of a process as its first part: it starts before the targets and stops behind them, so that it sees all
that they do."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence

from antiphon_core.telemetry import otlp, tracing
from antiphon_core.telemetry.exposition import Exposition, MetricsServer
from antiphon_core.telemetry.settings import MetricsSettings
from antiphon_core.version import VERSION


class TelemetryPart:
    """Serves metrics on a port of their own, and exports traces, where settings and `OTEL_*` variables ask for it."""

    name = "telemetry"

    def __init__(
        self, settings: MetricsSettings, exposition: Exposition, targets: Sequence[str], *, number: int | None = None
    ) -> None:
        """`number` is that of the process among several of the same targets: each has a port of its own."""
        self._server: MetricsServer | None = None
        if settings.port is not None:
            port = settings.port + (number - 1 if number is not None and settings.port else 0)
            self._server = MetricsServer(exposition, settings.host, port)
        self._service = f"antiphon-{'-'.join(targets)}"
        self._tracer: tracing.Tracer | None = None

    @property
    def metrics_port(self) -> int | None:
        """The port of the metrics, once it has started; None without one."""
        return self._server.port if self._server is not None else None

    async def start(self) -> None:
        self._tracer = otlp.tracer_of(os.environ, service=self._service, version=VERSION)
        tracing.set_tracer(self._tracer)
        if self._server is not None:
            self._server.start()

    async def stop(self) -> None:
        tracing.set_tracer(None)
        if self._tracer is not None:
            await asyncio.to_thread(self._tracer.close)
        if self._server is not None:
            await asyncio.to_thread(self._server.stop)
