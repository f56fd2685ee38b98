"""The event logs of the SQLite engine: each atom handed to the thread that runs it."""

from __future__ import annotations

from antiphon_core.ports.event_logs import EventAppend
from antiphon_core.ports.store import Fence
from antiphon_store.backends.roles.event_logs import LogPage
from antiphon_store.backends.sqlite import event_log_atoms as atoms
from antiphon_store.backends.sqlite.threads import Threads


class SqliteEventLogs:
    """Implements `roles.event_logs.EventLogAtoms` for SqliteBackend."""

    async def append_events(
        self: Threads, tenant: str, append: EventAppend, *, fence: Fence | None, ttl_ms: int
    ) -> int:
        return await self._writes.run(
            lambda connection: atoms.append(connection, tenant, append, fence, ttl_ms=ttl_ms, now_ms=self._now_ms())
        )

    async def read_log(self: Threads, tenant: str, response_id: str, *, position: int, max_bytes: int) -> LogPage:
        return await self._reads.run(
            lambda connection: atoms.read(
                connection, tenant, response_id, position=position, max_bytes=max_bytes, now_ms=self._now_ms()
            )
        )
