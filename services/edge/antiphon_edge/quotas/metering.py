"""Metering: counts the tokens that responses used, for the quotas and the metrics of their tenants.

Only generations are counted: the replay of a response under its idempotency key costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from antiphon_core.errors import AntiphonError
from antiphon_core.jsons import loads
from antiphon_core.telemetry import tenants

Charge = Callable[[str, int], None]  # (tenant, tokens)


class Meter:
    """Counts the usage of responses. Its calls do not wait."""

    def __init__(self, charge: Charge | None = None) -> None:
        self._charge = charge

    def count_response(self, tenant: str, response: bytes) -> None:
        """Counts the usage of a response that ended. `response` is its JSON, with or without the output."""
        if self._charge is not None or tenants.PROCESS.is_on:
            self.count_usage(tenant, loads(response).get("usage") or {})

    def count_failure(self, tenant: str, error: Exception) -> None:
        """Counts the tokens that were generated before a response failed, where the error has them in its `usage`."""
        if isinstance(error, AntiphonError) and error.usage is not None:
            self.count_usage(tenant, error.usage)

    def count_usage(self, tenant: str, usage: Mapping[str, Any]) -> None:
        tenants.PROCESS.tokens_used(
            tenant, input_tokens=usage.get("input_tokens", 0), output_tokens=usage.get("output_tokens", 0)
        )
        if self._charge is not None:
            self._charge(tenant, usage.get("total_tokens", 0))

    def broke_off(self, tenant: str, tokens: int) -> None:
        """Counts the output tokens of a response that was cut off. Its input tokens are not known, and not counted."""
        tenants.PROCESS.tokens_used(tenant, input_tokens=0, output_tokens=tokens)
        if self._charge is not None:
            self._charge(tenant, tokens)
