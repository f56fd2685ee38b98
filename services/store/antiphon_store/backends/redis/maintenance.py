"""Implements `rows.maintenance.Maintenance` for Redis. There are no lists of keys, so every method but `names` scans
all keys of all masters."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Any
from urllib.parse import unquote

from antiphon_store.backends.redis import keys
from antiphon_store.backends.redis.link import Link
from antiphon_store.rows.maintenance import IndexKey, Name
from antiphon_store.rows.model import Index, Kind, Partition, Ref

ROWS_PER_CALL = 500  # that a server scans
KEYS_PER_CALL = 1000  # that a server scans
KEYS_AT_ONCE = 200  # that are deleted

_ROWS = re.compile(rf"antiphon:\{{([^:}}]*):([^:}}]*)\}}:(?:{'|'.join(Kind)})", re.DOTALL)
_TREE_INDEX = re.compile(r"antiphon:\{([^:}]*):([^:}]*)\}:(children|made|item|level|created):(.*)", re.DOTALL)
_TENANT_INDEX = re.compile(r"antiphon:\{([^:}]*):([^:}]*):([^:}]*)\}")


class RedisMaintenance:
    """`atom` begins an atom on the backend's link."""

    def __init__(self, atom: Callable[[], AbstractContextManager[Link]]) -> None:
        self._atom = atom

    async def partitions(self, tenant: str | None = None) -> AsyncIterator[Partition]:
        seen: set[Partition] = set()
        async for key in self._keys(tenant):
            found = _ROWS.fullmatch(key)
            partition = Partition(unquote(found[1]), unquote(found[2])) if found else None
            if partition is not None and partition not in seen:
                seen.add(partition)
                yield partition

    async def names(self, partition: Partition) -> Sequence[Name]:
        found: dict[Ref, int] = {}
        async with self._client() as client:
            for kind in Kind:
                key, place = f"{keys.root(partition)}:{kind}", None
                while place != 0:
                    place, rows = await client.hscan(key, place or 0, count=ROWS_PER_CALL)
                    pipeline = client.pipeline(transaction=False)
                    for row_id in rows:
                        pipeline.hstrlen(f"{key}:items", row_id).hstrlen(f"{key}:body", row_id)
                    sizes = iter(await pipeline.execute())
                    for row_id, fields in rows.items():
                        found[Ref(kind, row_id.decode())] = len(fields) + next(sizes) + next(sizes)
        return [Name(*each) for each in found.items()]

    async def index_keys(self, tenant: str) -> AsyncIterator[IndexKey]:
        seen: set[str] = set()
        async for key in self._keys(tenant):
            found = _index_key(tenant, key)
            if found is not None and key not in seen:
                seen.add(key)
                yield found

    async def erase(self, tenant: str) -> AsyncIterator[int]:
        while found := [key async for key in self._keys(tenant)]:
            for start in range(0, len(found), KEYS_AT_ONCE):
                async with self._client() as client:
                    yield await client.unlink(*found[start : start + KEYS_AT_ONCE])
        async with self._client() as client:
            await client.srem(keys.TENANTS, tenant)

    async def _keys(self, tenant: str | None) -> AsyncIterator[str]:
        """All keys of a tenant, or of all tenants; a key may come twice."""
        async with self._client() as client:
            async for key in client.scan_iter(match=keys.of_tenant(tenant), count=KEYS_PER_CALL):
                yield key.decode()

    @asynccontextmanager
    async def _client(self) -> AsyncIterator[Any]:  # redis-py's types are those of all its clients
        with self._atom() as link:
            async with link.client() as client:
                yield client


def _index_key(tenant: str, key: str) -> IndexKey | None:
    """The index and the key of it that a key of Redis stands for, if any."""
    if found := _TREE_INDEX.fullmatch(key):
        return IndexKey(Partition(tenant, unquote(found[2])), Index(found[3]), found[4])
    if found := _TENANT_INDEX.fullmatch(key):
        return IndexKey(Partition(tenant, ""), Index(unquote(found[2])), unquote(found[3]))
    return None
