"""Metrics by tenant, which are off unless the setting `metrics.tenants` turns them on.

Every series takes memory in Prometheus for hours, and the number of tenants has no limit. So only the first
`metrics.tenants` tenants get a label of their own, and all others share one.
"""

from __future__ import annotations

from antiphon_core.telemetry import metrics
from antiphon_core.telemetry.instruments import OVERFLOW


class TenantMetrics:
    """Counts turns and tokens by tenant. `most` is the number of tenants with a label of their own."""

    def __init__(self, most: int = 0) -> None:
        self._labelled: set[str] = set()
        self.allow(most)

    def allow(self, most: int) -> None:
        """Sets the number of tenants that may have a label of their own."""
        self._most = most
        self.is_on = most > 0

    def turn_ended(self, tenant: str, status: str) -> None:
        if self._most:
            metrics.TENANT_TURNS.of(self._label(tenant), status).add()

    def tokens_used(self, tenant: str, *, input_tokens: int, output_tokens: int) -> None:
        if self._most:
            label = self._label(tenant)
            metrics.TENANT_TOKENS.of(label, "input").add(input_tokens)
            metrics.TENANT_TOKENS.of(label, "output").add(output_tokens)

    def _label(self, tenant: str) -> str:
        if tenant not in self._labelled:
            if len(self._labelled) >= self._most:
                return OVERFLOW
            self._labelled.add(tenant)
        return tenant


PROCESS = TenantMetrics()
"""The counts of this process."""
