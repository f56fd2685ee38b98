"""Metering: reports the tokens that responses took to the counter of their tenant's quota.

Only generations are counted: a response that is replayed under its idempotency key is not paid for twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from antiphon_core.errors import AntiphonError
from antiphon_core.jsons import loads
from antiphon_core.telemetry import tenants

Charge = Callable[[str, int], None]  # so many tokens of a tenant's


class Meter:
    """Reads what a response took, if anybody counts it. It waits for nothing."""

    def __init__(self, charge: Charge | None = None) -> None:
        self._charge = charge

    def ended(self, tenant: str, response: bytes) -> None:
        """A response came to its end: its JSON, with or without the output."""
        if self._charge is not None or tenants.PROCESS.is_on:
            self.used(tenant, loads(response).get("usage") or {})

    def failed(self, tenant: str, error: Exception) -> None:
        """A response broke with an error, which says what was generated in vain before it."""
        if isinstance(error, AntiphonError) and error.usage is not None:
            self.used(tenant, error.usage)

    def used(self, tenant: str, usage: Mapping[str, Any]) -> None:
        tenants.PROCESS.tokens_used(
            tenant, input_tokens=usage.get("input_tokens", 0), output_tokens=usage.get("output_tokens", 0)
        )
        if self._charge is not None:
            self._charge(tenant, usage.get("total_tokens", 0))

    def broke_off(self, tenant: str, tokens: int) -> None:
        """A response was given up, or broke, behind so many tokens of output; what its input took nobody knows."""
        tenants.PROCESS.tokens_used(tenant, input_tokens=0, output_tokens=tokens)
        if self._charge is not None:
            self._charge(tenant, tokens)
