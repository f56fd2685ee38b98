"""The idempotency keys of the memory engine."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from antiphon_core.errors import ResponseNotFound
from antiphon_core.ports.store import Fence, History, Record, Stamp, TurnRequest, TurnStart
from antiphon_store.backends import idempotency
from antiphon_store.backends.base import Write
from antiphon_store.backends.idempotency import KeyUse


class MemoryIdempotency:
    """Implements `roles.idempotency.IdempotencyAtoms` for MemoryBackend. The atoms that it extends do not suspend."""

    _key_uses: dict[tuple[str, str], KeyUse]

    if TYPE_CHECKING:

        def _now_ms(self) -> int: ...

        async def put(self, tenant: str, write: Write) -> Stamp: ...

        async def fetch(self, tenant: str, response_id: str) -> Record: ...

        async def begin_turn(self, tenant: str, request: TurnRequest) -> TurnStart: ...

        async def commit_turn(self, tenant: str, write: Write, fence: Fence | None) -> Stamp: ...

    async def begin_turn_once(self, tenant: str, request: TurnRequest, *, claim_ttl_ms: int) -> TurnStart:
        now_ms, key = self._now_ms(), request.idempotency_key or ""
        use = idempotency.in_force(self._key_uses.get((tenant, key)), key, request.fingerprint, now_ms)
        if use is not None and use.stamp is not None:
            try:
                return TurnStart(History(), replay=await self.fetch(tenant, use.response_id))
            except ResponseNotFound:
                use = None
        if use is not None and use.response_id != request.response_id:
            return TurnStart(History(), running_response_id=use.response_id)
        start = await self.begin_turn(tenant, request)
        self._remember(tenant, key, idempotency.claimed(request, ttl_ms=claim_ttl_ms, now_ms=now_ms))
        return start

    async def commit_turn_once(self, tenant: str, write: Write, fence: Fence | None, *, key: str) -> Stamp:
        now_ms, use = self._now_ms(), self._key_uses.get((tenant, key))
        idempotency.require_own(use, key, write.record.id, now_ms)
        stamp = await self.commit_turn(tenant, write, fence)
        self._remember(tenant, key, idempotency.bound(use, write.record, stamp, fingerprint=None, now_ms=now_ms))
        return stamp

    async def put_once(self, tenant: str, write: Write, *, key: str, fingerprint: bytes) -> Stamp:
        now_ms, use = self._now_ms(), self._key_uses.get((tenant, key))
        idempotency.require_own(use, key, write.record.id, now_ms)
        in_force = idempotency.in_force(use, key, fingerprint, now_ms)
        if in_force is not None and in_force.stamp is not None:
            return in_force.stamp
        stamp = await self.put(tenant, write)
        self._remember(tenant, key, idempotency.bound(use, write.record, stamp, fingerprint=fingerprint, now_ms=now_ms))
        return stamp

    async def forget_key(self, tenant: str, key: str, response_id: str) -> None:
        self._now_ms()
        use = self._key_uses.get((tenant, key))
        if use is not None and use.stamp is None and use.response_id == response_id:
            del self._key_uses[tenant, key]

    def _remember(self, tenant: str, key: str, use: KeyUse) -> None:
        self._key_uses.pop((tenant, key), None)
        self._key_uses[tenant, key] = use
        self._forget_oldest()

    def _forget_oldest(self) -> None:
        """Lets go of keys whose time is over, oldest first, a few for each that is remembered."""
        now_ms = self._now_ms()
        for oldest in list(islice(self._key_uses, 2)):
            if self._key_uses[oldest].expires_at_ms <= now_ms:
                del self._key_uses[oldest]
