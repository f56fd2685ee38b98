"""The load of a model as metrics of its Triton (port 8002), for autoscalers, dashboards and the choice of an endpoint.

Triton's own queue metrics are of no use here: a request is handed to the model at once, and waits in the engine.
"""

from dataclasses import dataclass
from typing import Any

import triton_python_backend_utils as pb_utils

from antiphon_tokens.signature import QUEUE_METRIC, REQUESTS_METRIC


@dataclass(frozen=True)
class Load:
    """The requests of a model that have tokens already, those that have none yet, and how long the oldest of those has
    waited, in seconds: in the queue, and for its prompt to be read."""

    running: int = 0
    waiting: int = 0
    queue_s: float = 0.0


class LoadMetrics:
    """The gauges of one model. Each change is a call to Triton, so what stays the same is not set again."""

    def __init__(self, model: str, version: str) -> None:
        labels, gauge = {"model": model, "version": version}, pb_utils.MetricFamily.GAUGE
        requests = pb_utils.MetricFamily(
            name=REQUESTS_METRIC,
            description="Requests, by whether they have a token yet: running, waiting.",
            kind=gauge,
        )
        queue = pb_utils.MetricFamily(
            name=QUEUE_METRIC,
            description="Seconds for which the oldest request without a token has waited.",
            kind=gauge,
        )
        self._families = (requests, queue)  # Triton removes a gauge whose family is gone
        self._gauges: dict[str, Any] = {
            "running": requests.Metric(labels={**labels, "state": "running"}),
            "waiting": requests.Metric(labels={**labels, "state": "waiting"}),
            "queue_s": queue.Metric(labels=labels),
        }
        self._shown: dict[str, float] = {}

    def show(self, load: Load) -> None:
        for name, gauge in self._gauges.items():
            value = float(getattr(load, name))
            if self._shown.get(name) != value:
                gauge.set(value)
                self._shown[name] = value


def metrics_of(model: str, version: str) -> "LoadMetrics | None":
    """The gauges of a model; None where Triton was started without metrics."""
    try:
        return LoadMetrics(model, version)
    except Exception as error:  # noqa: BLE001 - the class of Triton's errors is not that of its documentation
        pb_utils.Logger.log_info(f"{model}: its load is not among the metrics: {error}")
        return None
