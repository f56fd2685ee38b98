"""Maintenance of rows in SQL databases. Each database has its own statements of the same names."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

from antiphon_store.rows.maintenance import IndexKey, Name
from antiphon_store.rows.model import Index, Kind, Partition, Ref

LINES = 500  # of one query
BEHIND_ALL = "\U0010ffff"  # sorts after every id


class SqlMaintenance:
    """`find` runs a named statement and returns its lines. `change` runs one that erases: the number of lines."""

    def __init__(
        self, find: Callable[[str, dict[str, Any]], Awaitable[list[Any]]], change: Callable[..., Awaitable[int]]
    ) -> None:
        self._find = find
        self._change = change

    async def partitions(self, tenant: str | None = None) -> AsyncIterator[Partition]:
        async for each in self._pages("partitions", (tenant or "", ""), tenants_end=tenant or BEHIND_ALL):
            yield Partition(*each)

    async def names(self, partition: Partition) -> Sequence[Name]:
        found = await self._find("names", partition._asdict())
        return [Name(Ref(Kind(kind), row_id), size) for kind, row_id, size in found]

    async def index_keys(self, tenant: str) -> AsyncIterator[IndexKey]:
        async for tree, index, key in self._pages("index_keys", ("", "", ""), tenant=tenant):
            yield IndexKey(Partition(tenant, tree), Index(index), key)

    async def erase(self, tenant: str) -> AsyncIterator[int]:
        while trees := [each async for each in self.partitions(tenant)]:
            for partition in trees:
                yield await self._change("erase", partition._asdict())
        while count := await self._change("erase_entries", {"tenant": tenant, "limit": 10 * LINES}):
            yield count

    async def _pages(self, name: str, after: Sequence[str], **values: Any) -> AsyncIterator[Any]:
        while found := await self._find(name, {**values, "limit": LINES, **_number_params(after)}):
            for each in found:
                yield each
            after = found[-1]


def _number_params(after: Sequence[str]) -> dict[str, str]:
    return {f"after_{number}": value for number, value in enumerate(after)}
