from __future__ import annotations

import pytest

from antiphon_tokens import load
from antiphon_tokens.load import Load, LoadMetrics
from antiphon_tokens.signature import QUEUE_METRIC, REQUESTS_METRIC
from tests.support.triton_backend import LOGGED, MetricFamily


def test_gauges_are_set_when_they_change() -> None:
    metrics = LoadMetrics("m", "1")
    for each in (Load(1, 2, 0.5), Load(1, 2, 0.5), Load(1, 0, 0)):
        metrics.show(each)
    requests, queue = (MetricFamily.families[name] for name in (REQUESTS_METRIC, QUEUE_METRIC))
    assert requests.values == {("m", "1", "running"): 1, ("m", "1", "waiting"): 0}
    assert queue.values == {("m", "1"): 0}
    assert (requests.changes, queue.changes) == (3, 2)


def test_model_is_loaded_where_triton_has_no_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MetricFamily, "is_off", True)
    assert load.metrics_of("m", "1") is None
    assert LOGGED[-1] == "m: its load is not among the metrics: metrics are not enabled"
