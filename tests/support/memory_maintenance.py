"""Maintenance of rows in memory, for tests: implements `rows.maintenance.Maintenance`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from antiphon_core.clock import Clock
from antiphon_core.jsons import dumps
from antiphon_store.backends.memory import MemoryRows, Tree
from antiphon_store.rows.maintenance import IndexKey, Name
from antiphon_store.rows.model import Partition


class MemoryMaintenance:
    """Lists and erases the content of a `MemoryRows`."""

    def __init__(self, rows: MemoryRows) -> None:
        self._rows = rows

    async def partitions(self, tenant: str | None = None) -> AsyncIterator[Partition]:
        for partition, tree in list(self._rows.trees.items()):
            if tree.rows and tenant in (None, partition.tenant):
                yield partition

    async def names(self, partition: Partition) -> Sequence[Name]:
        rows = (self._rows.trees.get(partition) or Tree()).rows.items()
        return [Name(ref, len(dumps(dict(row.fields))) + len(row.items) + len(row.body)) for ref, row in rows]

    async def index_keys(self, tenant: str) -> AsyncIterator[IndexKey]:
        for partition, tree in list(self._rows.trees.items()):
            for (index, key), found in list(tree.indexes.items()):
                if partition.tenant == tenant and found.lines:
                    yield IndexKey(partition, index, key)
        for (owner, index, key), found in list(self._rows.tenant_wide.items()):
            if owner == tenant and found.lines:
                yield IndexKey(Partition(tenant, ""), index, key)

    async def erase(self, tenant: str) -> AsyncIterator[int]:
        for partition in [each for each in self._rows.trees if each.tenant == tenant]:
            yield len(self._rows.trees.pop(partition).rows)
        for name in [each for each in self._rows.tenant_wide if each[0] == tenant]:
            del self._rows.tenant_wide[name]


class MaintainedMemory(MemoryRows):
    """Rows in memory with their maintenance."""

    def __init__(self, clock: Clock | None = None) -> None:
        super().__init__(clock)
        self.maintenance = MemoryMaintenance(self)
