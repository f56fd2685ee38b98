"""The metrics of a process as text: Prometheus' own format, or OpenMetrics with exemplars for clients that accept it.

prometheus_client writes the text and serves the metrics port. It is imported when metrics are first read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from antiphon_core.telemetry import metrics
from antiphon_core.telemetry.instruments import CounterChild, GaugeChild, HistogramChild, Instrument
from antiphon_core.version import VERSION

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Metric

OPEN_METRICS = "application/openmetrics-text; version=1.0.0"
PLAIN = ""  # Prometheus' own format

WORKER_LABEL = "worker"
TENANT_LABEL = "tenant"


def format_of(accept: str) -> str:
    """The format that an `Accept` header asks for: OPEN_METRICS or PLAIN. The header's versions and escapings are
    ignored: names of metrics need no escaping."""
    from prometheus_client.exposition import choose_encoder

    return OPEN_METRICS if choose_encoder(accept)[1].startswith("application/openmetrics-text") else PLAIN


class Exposition:
    """A prometheus_client collector for the instruments of the `targets` that this process runs. `worker` is the number
    of the process if several serve one port: it becomes a label, which keeps their series apart."""

    def __init__(self, targets: Collection[str], *, worker: int | None = None, names_tenants: bool = True) -> None:
        """Without `names_tenants`, the series that have a tenant as label are left out."""
        self._names_tenants = names_tenants
        self._worker = worker
        self._targets = frozenset(targets)
        self._worker_labels = {} if worker is None else {WORKER_LABEL: str(worker)}
        metrics.BUILD.of(VERSION).set(1)

    def without_tenants(self) -> Exposition:
        """The exposition of the same targets without the series that name tenants, for readers that may be tenants."""
        return Exposition(self._targets, worker=self._worker, names_tenants=False)

    def text(self, accept: str = "") -> tuple[bytes, str]:
        """All metrics in the format that the `Accept` header asks for, and the content type. Takes milliseconds, so
        call it outside the event loop."""
        from prometheus_client.exposition import choose_encoder

        encode, content_type = choose_encoder(format_of(accept))
        return encode(self.registry), content_type

    @cached_property
    def registry(self) -> CollectorRegistry:
        """The registry of this collector and of prometheus_client's own, for the process and Python."""
        from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector

        registry = CollectorRegistry(auto_describe=False, target_info=None)
        registry.register(self)
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=registry)
        return registry

    def collect(self) -> Iterator[Metric]:
        """Yields the metric families of the instruments. prometheus_client calls it."""
        for instrument in metrics.INSTRUMENTS:
            declared = instrument.declaration
            is_shown = self._names_tenants or TENANT_LABEL not in declared.labels
            if is_shown and self._targets.intersection(declared.targets):
                yield self._family(instrument)

    def _family(self, instrument: Instrument[Any]) -> Metric:
        from prometheus_client import metrics_core

        declared = instrument.declaration
        names = (*declared.labels, *self._worker_labels)
        if declared.buckets:
            kind: Any = metrics_core.HistogramMetricFamily
        elif declared.name.endswith("_total"):
            kind = metrics_core.CounterMetricFamily
        else:
            kind = metrics_core.GaugeMetricFamily
        family: Metric = kind(declared.name, declared.meaning, labels=names)
        for values, child in instrument.children().items():
            self._add(family, (*values, *self._worker_labels.values()), child, declared.buckets)
        return family

    def _add(self, family: Any, values: tuple[str, ...], child: object, bounds: tuple[float, ...]) -> None:
        if isinstance(child, CounterChild | GaugeChild):
            family.add_metric(values, child.value)
        elif isinstance(child, HistogramChild):
            family.add_metric(values, list(_buckets(child, bounds)), child.sum)


class MetricsServer:
    """Serves an exposition over HTTP, in threads (metrics_port.py)."""

    def __init__(self, exposition: Exposition, host: str, port: int) -> None:
        """Port 0 lets the system choose."""
        self._exposition = exposition
        self._host = host
        self.port = port

    def start(self) -> None:
        """Listens and serves. OSError: it cannot listen; the message names the port."""
        from antiphon_core.telemetry import metrics_port

        try:
            self._server, self._thread = metrics_port.serve(self._exposition.registry, self._host, self.port)
        except (OSError, OverflowError) as error:  # OverflowError: there is no such port
            reason = getattr(error, "strerror", None) or error
            raise OSError(f"Cannot serve metrics on {self._host} port {self.port}: {reason}.") from error
        self.port = self._server.server_port

    def stop(self) -> None:
        """Stops serving, and waits until the socket is closed."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _buckets(child: HistogramChild, bounds: tuple[float, ...]) -> Iterator[tuple[Any, ...]]:
    """Yields each bucket: its upper bound, the cumulative count, and the exemplar if it has one."""
    from prometheus_client.samples import Exemplar

    exemplars = child.exemplars.copy()
    texts = [*(str(float(bound)) for bound in bounds), "+Inf"]
    for number, (text, below) in enumerate(zip(texts, accumulate(child.counts), strict=True)):
        found = exemplars.get(number)
        if found is None:
            yield text, below
        else:
            yield text, below, Exemplar({"trace_id": found.trace_id}, found.value, found.at_s)
