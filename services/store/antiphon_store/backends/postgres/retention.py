"""The atoms of `roles.retention`, each one statement: sweep_v1, and the tenants in the order of an index."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon_core.ports.retention import Sweeping
from antiphon_store.backends.postgres.asking import Asking

ATOM_RECORDS_MAX = 256  # whoever writes in one of their trees waits until the sweep has ended: some milliseconds


class PostgresRetention(Asking):
    """Implements `roles.retention.RetentionAtoms`."""

    async def sweep(self, tenant: str, *, limit: int) -> Sweeping:
        parameters = {"tenant": tenant, "most": min(limit, ATOM_RECORDS_MAX)}
        ((records, size_bytes, has_more),) = await self._run("sweep", parameters)
        return Sweeping(records, size_bytes, has_more)

    async def tenants(self) -> Sequence[str]:
        return [tenant for (tenant,) in await self._run("tenants", {})]
