"""The metrics of a model's endpoints as a fleet: placements, what is learned of each endpoint, and its load."""

from __future__ import annotations

from collections.abc import Iterable

from antiphon_core.telemetry import metrics
from antiphon_translator.engines.endpoint_choice import Chosen
from antiphon_translator.engines.replica_metrics import ReplicaMetrics


class FleetMetrics:
    """The metrics of the endpoints of one model."""

    def __init__(self, model: str) -> None:
        self._model = model

    def count_migration(self) -> None:
        metrics.ENGINE_MIGRATIONS.of(self._model).add()

    def count_placement(self, chosen: Chosen) -> None:
        endpoint = chosen.endpoint
        metrics.PLACEMENTS.of(self._model, chosen.outcome.value).add()
        metrics.ENDPOINT_PREFILL_RATE.of(self._model, endpoint.name).set(endpoint.cache.rate)

    def note_load(self, endpoint: str, load: ReplicaMetrics | None) -> None:
        """Notes the result of a poll; None is one that failed."""
        metrics.LOAD_POLLS.of(self._model, endpoint, "failed" if load is None else "ok").add()
        if load is None:
            return
        if load.waiting is not None:
            metrics.ENDPOINT_WAITING.of(self._model, endpoint).set(load.waiting)
        if load.kv_tokens is not None and load.kv_used_share is not None:
            metrics.ENDPOINT_KV_TOKENS.of(self._model, endpoint, "max").set(load.kv_tokens)
            metrics.ENDPOINT_KV_TOKENS.of(self._model, endpoint, "used").set(load.kv_tokens * load.kv_used_share)

    def forget(self, endpoints: Iterable[str]) -> None:
        """Removes the gauges of endpoints that are not used any more."""
        for endpoint in endpoints:
            metrics.ENDPOINT_PREFILL_RATE.forget(self._model, endpoint)
            metrics.ENDPOINT_WAITING.forget(self._model, endpoint)
            for state in ("max", "used"):
                metrics.ENDPOINT_KV_TOKENS.forget(self._model, endpoint, state)
