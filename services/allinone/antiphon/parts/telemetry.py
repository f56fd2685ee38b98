"""The telemetry of a process. It is the first part to start and the last part to stop, so that everything that the
targets do is recorded."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence

from antiphon import otlp
from antiphon.metrics_settings import MetricsSettings
from antiphon_core.telemetry import tracing
from antiphon_core.telemetry.exposition import Exposition, MetricsServer
from antiphon_core.version import VERSION


class TelemetryPart:
    """Serves metrics on their own port if the settings have one, and exports traces if `OTEL_*` variables say so."""

    name = "telemetry"

    def __init__(
        self, settings: MetricsSettings, exposition: Exposition, targets: Sequence[str], *, number: int | None = None
    ) -> None:
        """`number`: the number of this process, from 1, if several processes run the same targets. The first one serves
        metrics on the port of the settings, and each further one on the next port."""
        self._server: MetricsServer | None = None
        if settings.port is not None:
            port = settings.port + (number - 1 if number is not None and settings.port else 0)
            self._server = MetricsServer(exposition, settings.host, port)
        self._service = f"antiphon-{'-'.join(targets)}"
        self._tracer: tracing.Tracer | None = None

    @property
    def metrics_port(self) -> int | None:
        """The port of the metrics, once the part has started; None if the settings have none."""
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
