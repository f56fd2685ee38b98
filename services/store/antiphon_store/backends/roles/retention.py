"""The atom of retention. The rules of `backends.base` hold for it too."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from antiphon_core.ports.retention import Sweeping


@runtime_checkable
class RetentionAtoms(Protocol):
    async def sweep(self, tenant: str, *, limit: int) -> Sweeping:
        """Reclaims up to `limit` of a tenant's nodes that are neither kept nor the ancestor of a kept one, of its
        expired event logs, and of its jobs that need to be remembered no longer. `has_more`: there are more.

        An engine may stop early, to let others have their turn, but not before it reclaimed something."""
