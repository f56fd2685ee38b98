"""Lineage on the SQLite engine: each atom handed to the thread that runs it."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon_core.ports.lineage import Fork, ForkSource, ResolvedItem, TreeNode
from antiphon_core.ports.store import Order, Precondition, Record, Stamp, Status
from antiphon_store.backends.roles.lineage import Position, Slice, Twig
from antiphon_store.backends.sqlite import lineage_reads as reads
from antiphon_store.backends.sqlite import lineage_writes as writes
from antiphon_store.backends.sqlite.threads import Threads


class SqliteLineage:
    """Implements `roles.lineage.LineageAtoms` for SqliteBackend."""

    async def fetch_many(self: Threads, tenant: str, ids: Sequence[str], *, max_bytes: int) -> Sequence[Record]:
        return await self._reads.run(
            lambda connection: reads.fetch_many(connection, tenant, ids, self._now_ms(), max_bytes=max_bytes)
        )

    async def change_status(
        self: Threads, tenant: str, response_id: str, status: Status, precondition: Precondition
    ) -> Stamp:
        return await self._writes.run(
            lambda connection: writes.change_status(
                connection, tenant, response_id, status, precondition, self._now_ms()
            )
        )

    async def session_records(
        self: Threads, tenant: str, session_id: str, *, after: Position | None, limit: int, order: Order, max_bytes: int
    ) -> Slice[Record]:
        return await self._reads.run(
            lambda connection: reads.session_records(
                connection,
                tenant,
                session_id,
                self._now_ms(),
                after=after,
                limit=limit,
                order=order,
                max_bytes=max_bytes,
            )
        )

    async def find_items(
        self: Threads, tenant: str, item_ids: Sequence[str], *, max_bytes: int
    ) -> Sequence[ResolvedItem]:
        return await self._reads.run(
            lambda connection: reads.find_items(connection, tenant, item_ids, self._now_ms(), max_bytes=max_bytes)
        )

    async def fork(self: Threads, tenant: str, source: ForkSource, new_session_id: str) -> Fork:
        return await self._writes.run(
            lambda connection: writes.fork(connection, tenant, source, new_session_id, self._now_ms())
        )

    async def subtree(
        self: Threads, tenant: str, response_id: str, *, from_root: bool, max_nodes: int
    ) -> Sequence[Twig]:
        return await self._reads.run(
            lambda connection: reads.subtree(
                connection, tenant, response_id, self._now_ms(), from_root=from_root, max_nodes=max_nodes
            )
        )

    async def children(
        self: Threads, tenant: str, response_id: str, *, after: Position | None, limit: int
    ) -> Slice[TreeNode]:
        return await self._reads.run(
            lambda connection: reads.children(connection, tenant, response_id, self._now_ms(), after=after, limit=limit)
        )

    async def siblings(
        self: Threads, tenant: str, response_id: str, *, after: Position | None, limit: int
    ) -> Slice[TreeNode]:
        return await self._reads.run(
            lambda connection: reads.siblings(connection, tenant, response_id, self._now_ms(), after=after, limit=limit)
        )
