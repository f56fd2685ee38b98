"""The settings of metrics."""

from __future__ import annotations

from dataclasses import dataclass, field

from antiphon_core.config import Port, SettingsError

TENANTS_MAX = 1_000


@dataclass(frozen=True, slots=True)
class MetricsSettings:
    host: str = field(
        default="127.0.0.1",
        metadata={"doc": "Address to serve metrics on, without authentication. Metrics have no content of requests."},
    )
    port: Port | None = field(
        default=None,
        metadata={
            "doc": "Port to serve /metrics on, without authentication; none if unset. With several processes "
            "(serve.workers) the first has this port, the second the next one, and so on. The edge also serves its "
            "metrics at /v1/metrics of its own port, to authenticated callers.",
            "alias": "NIM_TRITON_METRICS_PORT",
        },
    )
    open: bool = field(
        default=False,
        metadata={"doc": "Whether the edge answers /v1/metrics without an API key, as NIM does."},
    )
    tenants: int = field(
        default=0,
        metadata={
            "doc": "Number of tenants that have metrics of their own, with their names as labels; all others are "
            "counted together. 0 for none, 1,000 at most."
        },
    )

    def __post_init__(self) -> None:
        if not 0 <= self.tenants <= TENANTS_MAX:
            raise SettingsError(f"ANTIPHON_METRICS_TENANTS must be 0 to {TENANTS_MAX}, but is {self.tenants}.")
