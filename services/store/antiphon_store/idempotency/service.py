"""Writes and turns with an idempotency key. Without one the plain atoms serve."""

from __future__ import annotations

from hashlib import sha256

from antiphon_core.ports.store import Fence, Record, Stamp, TurnRequest, TurnStart
from antiphon_store.engine.store_engine import StoreEngine
from antiphon_store.settings import StoreSettings
from antiphon_store.values import Write


class IdempotencyOperations:
    """The part of StoreService that chooses between an atom and its keyed form. Arguments are checked already."""

    _backend: StoreEngine
    _settings: StoreSettings

    async def _put(self, tenant: str, write: Write, key: str | None) -> Stamp:
        if key is None:
            return await self._backend.put(tenant, write)
        return await self._backend.put_once(tenant, write, key=key, fingerprint=fingerprint_of(write.record))

    async def _begin_turn(self, tenant: str, request: TurnRequest) -> TurnStart:
        if request.idempotency_key is None:
            return await self._backend.begin_turn(tenant, request)
        return await self._backend.begin_turn_once(tenant, request, claim_ttl_ms=self._settings.turn_claim_s * 1000)

    async def _commit_turn(self, tenant: str, write: Write, fence: Fence | None, key: str | None) -> Stamp:
        if key is None:
            return await self._backend.commit_turn(tenant, write, fence)
        return await self._backend.commit_turn_once(tenant, write, fence, key=key)

    async def _forget_key(self, tenant: str, key: str, response_id: str) -> None:
        await self._backend.forget_key(tenant, key, response_id)


def fingerprint_of(record: Record) -> bytes:
    """SHA-256 of what a writer decides about a record, with the length of each part before it."""
    digest = sha256()
    for text in (record.id, record.status, record.parent_id or "", record.session_id or ""):
        digest.update(text.encode() + b"\0")
    for part in (record.body, record.input_items, record.output_items):
        digest.update(b"%d:" % len(part) + part)
    return digest.digest()
