"""Export of traces over OTLP, configured by OpenTelemetry's own variables. Its libraries are imported only if needed.

    OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or OTEL_TRACES_EXPORTER=otlp    turns them on
    OTEL_SDK_DISABLED=true or OTEL_TRACES_EXPORTER=none                                             turns them off

OpenTelemetry's SDK reads all other variables (OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES, OTEL_TRACES_SAMPLER,
OTEL_BSP_*, ...). The extra `otel` installs the libraries.
"""

from __future__ import annotations

from collections.abc import Mapping

from antiphon_core.config import SettingsError
from antiphon_core.telemetry.tracing import Tracer

_EXPORTER = "OTEL_TRACES_EXPORTER"
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


def is_wanted(environ: Mapping[str, str]) -> bool:
    """Whether the variables turn traces on. SettingsError: they name an exporter other than otlp and none."""
    exporter = environ.get(_EXPORTER, "")
    if exporter not in ("", "otlp", "none"):
        raise SettingsError(f"{_EXPORTER}={exporter!r}: must be otlp or none.")
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or exporter == "none":
        return False
    return bool(exporter) or any(environ.get(name) for name in _ENDPOINTS)


def tracer_of(environ: Mapping[str, str], *, service: str, version: str) -> Tracer | None:
    """The tracer that the variables configure; None if traces are off. `service` is the name of the service, unless
    OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES has one.

    SettingsError: the libraries are not installed, or do not support the protocol.
    """
    if not is_wanted(environ):
        return None
    try:
        from antiphon import otlp_tracer
    except ModuleNotFoundError as error:
        raise SettingsError(f"Traces need the package '{error.name}': pip install 'antiphon-server[otel]'.") from error
    return otlp_tracer.open_tracer(environ, service=service, version=version)
