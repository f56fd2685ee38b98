"""Which tenants have labels of their own in metrics: none, unless a setting allows for some.

Tenants come and go, and every series costs Prometheus memory for hours. So the first tenants up to a number are shown
by name, and all others together.
"""

from __future__ import annotations

from antiphon_core.telemetry import metrics
from antiphon_core.telemetry.instruments import OVERFLOW


class TenantMetrics:
    """Counts by tenant, for at most so many of them."""

    def __init__(self, most: int = 0) -> None:
        self._most = most
        self._named: set[str] = set()

    @property
    def is_on(self) -> bool:
        return self._most > 0

    def allow(self, most: int) -> None:
        """How many tenants may have labels of their own from now on."""
        self._most = most

    def turn_ended(self, tenant: str, status: str) -> None:
        if self._most:
            metrics.TENANT_TURNS.of(self._label(tenant), status).add()

    def tokens_used(self, tenant: str, *, input_tokens: int, output_tokens: int) -> None:
        if self._most:
            label = self._label(tenant)
            metrics.TENANT_TOKENS.of(label, "input").add(input_tokens)
            metrics.TENANT_TOKENS.of(label, "output").add(output_tokens)

    def _label(self, tenant: str) -> str:
        if tenant not in self._named:
            if len(self._named) >= self._most:
                return OVERFLOW
            self._named.add(tenant)
        return tenant


PROCESS = TenantMetrics()
"""Those of this process."""
