from __future__ import annotations

import subprocess
import sys

import pytest

from antiphon import otlp
from antiphon_core.config import SettingsError

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h:4317"}


@pytest.mark.parametrize(
    ("environ", "is_wanted"),
    [
        ({}, False),
        ({"OTEL_SERVICE_NAME": "x"}, False),
        (ENDPOINT, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://h:4317"}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        (ENDPOINT | {"OTEL_TRACES_EXPORTER": "none"}, False),
        (ENDPOINT | {"OTEL_SDK_DISABLED": "true"}, False),
    ],
)
def test_opentelemetrys_variables_turn_traces_on_and_off(environ: dict[str, str], is_wanted: bool) -> None:
    assert otlp.is_wanted(environ) is is_wanted


def test_another_exporter_is_refused() -> None:
    with pytest.raises(SettingsError, match="OTEL_TRACES_EXPORTER='console': must be otlp or none"):
        otlp.is_wanted({"OTEL_TRACES_EXPORTER": "console"})


def test_without_a_variable_there_is_no_tracer() -> None:
    assert otlp.tracer_of({}, service="s", version="1") is None


def test_a_missing_opentelemetry_package_is_named_in_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    for name in [name for name in sys.modules if name.startswith(("opentelemetry.", "antiphon.otlp_"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr("antiphon.otlp_tracer", raising=False)
    with pytest.raises(SettingsError, match=r"pip install 'antiphon-server\[otel\]'"):
        otlp.tracer_of(ENDPOINT, service="s", version="1")


def test_importing_otlp_imports_no_opentelemetry() -> None:
    program = "import sys, antiphon.otlp; print([n for n in sys.modules if n.startswith('opentelemetry')])"
    assert subprocess.check_output([sys.executable, "-c", program], text=True).strip() == "[]"
