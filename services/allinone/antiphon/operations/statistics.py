"""Number and size of rows, by tenant and kind of row."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from antiphon_store.rows.maintenance import Maintenance, Progress
from antiphon_store.rows.model import Kind


class Amount(NamedTuple):
    """The number of rows, and the bytes of their fields and payloads without the overhead of the database."""

    rows: int = 0
    size: int = 0


async def statistics(
    maintenance: Maintenance, tenant: str | None, on_progress: Progress
) -> Mapping[tuple[str, Kind], Amount]:
    """Counts the rows of a tenant; None: of all tenants."""
    amounts: defaultdict[tuple[str, Kind], Amount] = defaultdict(Amount)
    async for partition in maintenance.partitions(tenant):
        for ref, size in await maintenance.names(partition):
            former = amounts[partition.tenant, ref.kind]
            amounts[partition.tenant, ref.kind] = Amount(former.rows + 1, former.size + size)
            on_progress(1)
    return dict(sorted(amounts.items()))
