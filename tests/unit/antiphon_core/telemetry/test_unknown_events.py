from __future__ import annotations

import importlib

import pytest

from antiphon_core.telemetry import metrics, unknown_events


def test_an_unknown_event_is_counted_each_time_and_logged_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unknown_events, "note", unknown_events.note)  # that of tests/conftest.py comes back
    note = importlib.reload(unknown_events).note
    before = metrics.UNKNOWN_EVENTS.of().value
    for event_type in ("response.new", "response.new", "response.newer"):
        note(event_type)
    assert metrics.UNKNOWN_EVENTS.of().value == before + 3
    assert [record.args for record in caplog.records] == [("response.new",), ("response.newer",)]
