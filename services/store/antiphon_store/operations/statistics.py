"""How much there is, by tenant and kind of row."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from antiphon_store.rows.maintenance import Maintenance, Progress
from antiphon_store.rows.model import Kind


class Amount(NamedTuple):
    """Rows, and the bytes of their fields and payloads. What a database needs besides is not counted."""

    rows: int = 0
    size: int = 0


async def statistics(
    maintenance: Maintenance, tenant: str | None, on_progress: Progress
) -> Mapping[tuple[str, Kind], Amount]:
    """Counts what a tenant has, or all of them."""
    amounts: defaultdict[tuple[str, Kind], Amount] = defaultdict(Amount)
    async for partition in maintenance.partitions(tenant):
        for ref, size in await maintenance.names(partition):
            former = amounts[partition.tenant, ref.kind]
            amounts[partition.tenant, ref.kind] = Amount(former.rows + 1, former.size + size)
            on_progress(1)
    return dict(sorted(amounts.items()))
