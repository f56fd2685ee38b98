"""The operations of retention (`decisions.sweeping`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from antiphon_core.ports.retention import Sweeping


class RetentionAtoms(Protocol):
    async def sweep(self, tenant: str, *, limit: int) -> Sweeping:
        """Reclaims up to `limit` of a tenant's nodes that are neither kept nor the ancestor of a kept one, of its
        expired event logs, of its jobs that need to be remembered no longer, and of its expired conversations with all
        that `remove_conversation` takes. `has_more`: there are more.

        An engine may stop early, to let others have their turn, but not before it reclaimed something."""

    async def tenants(self) -> Sequence[str]:
        """Everybody who may have something to sweep, each once; it need not be of one moment."""
