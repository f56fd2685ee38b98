"""The load of a model's endpoints, as their own metrics report it."""

from __future__ import annotations

from functools import partial
from urllib.parse import urlsplit

from antiphon_core import offload
from antiphon_translator.engines import metrics_page, replica_metrics
from antiphon_translator.engines.replica_metrics import ReplicaMetrics
from antiphon_translator.models.profiles import URL_ENGINES, ModelProfile

FETCH_S = 1.0
"""Timeout of one page: a server that takes longer is busy, and its page is old."""


class ReportedLoad:
    """Reads the metrics of the endpoints of one profile."""

    def __init__(self, profile: ModelProfile) -> None:
        self._profile = profile
        self._model = profile.served_name if profile.engine in URL_ENGINES else profile.triton_model

    async def fetch(self, endpoint: str) -> ReplicaMetrics:
        """Reads the metrics of an endpoint. EngineUnavailable: they cannot be read."""
        host, port = address_of(endpoint, self._profile)
        page = await metrics_page.fetch(host, port, timeout_s=FETCH_S)
        return await offload.run(partial(replica_metrics.read, page, self._model), size_bytes=len(page))


def has_metrics(profile: ModelProfile) -> bool:
    """Whether the addresses of the metrics are known: those of a server behind https are not, which a proxy may be."""
    return all(not endpoint.startswith("https:") for endpoint in profile.endpoints)


def address_of(endpoint: str, profile: ModelProfile) -> tuple[str, int]:
    """The host and the port of an endpoint's metrics: of a Triton the profile's port, of others that of the URL."""
    if profile.engine in URL_ENGINES:
        url = urlsplit(endpoint)
        return url.hostname or "", url.port or 80
    return endpoint.removeprefix("dns:///").rpartition(":")[0].strip("[]"), profile.metrics_port
