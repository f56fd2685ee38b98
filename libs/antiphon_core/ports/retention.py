"""The port of cleanup: reclaims the space of expired and deleted data. It never changes the answer of another call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Protocol

from antiphon_core import limits
from antiphon_core.ports.checks import Tenant, within


@dataclass(frozen=True, slots=True)
class Sweeping:
    """The result of one sweep: the number of responses, event logs, jobs and conversations that it reclaimed, and the
    bytes of their content. `has_more`: another sweep may find more."""

    records: int = 0
    size_bytes: int = 0
    has_more: bool = False


class Retention(Protocol):
    """Reclaims space, one tenant and a limited number of rows at a time."""

    async def sweep(
        self, tenant: Tenant, *, limit: Annotated[int, within(1, limits.SWEEP_ITEMS_MAX)] = limits.SWEEP_ITEMS_DEFAULT
    ) -> Sweeping:
        """Reclaims at most `limit` responses, event logs, jobs and conversations of the tenant that have expired or
        were deleted."""
