"""The idempotency keys of the SQLite engine: each atom on the writer."""

from __future__ import annotations

from antiphon_core.ports.store import Fence, Stamp, TurnRequest, TurnStart
from antiphon_store.backends.base import Write
from antiphon_store.backends.sqlite import idempotency_atoms as atoms
from antiphon_store.backends.sqlite.threads import Threads


class SqliteIdempotency:
    """Implements `roles.idempotency.IdempotencyAtoms` for SqliteBackend."""

    async def begin_turn_once(self: Threads, tenant: str, request: TurnRequest, *, claim_ttl_ms: int) -> TurnStart:
        return await self._writes.run(
            lambda connection: atoms.begin_turn(
                connection, tenant, request, claim_ttl_ms=claim_ttl_ms, now_ms=self._now_ms()
            )
        )

    async def commit_turn_once(self: Threads, tenant: str, write: Write, fence: Fence | None, *, key: str) -> Stamp:
        return await self._writes.run(
            lambda connection: atoms.commit_turn(connection, tenant, write, fence, key=key, now_ms=self._now_ms())
        )

    async def put_once(self: Threads, tenant: str, write: Write, *, key: str, fingerprint: bytes) -> Stamp:
        return await self._writes.run(
            lambda connection: atoms.put(
                connection, tenant, write, key=key, fingerprint=fingerprint, now_ms=self._now_ms()
            )
        )

    async def forget_key(self: Threads, tenant: str, key: str, response_id: str) -> None:
        await self._writes.run(lambda connection: atoms.forget_key(connection, tenant, key, response_id))
