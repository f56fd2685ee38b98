"""The idempotency keys of the Redis engine. What may become of a key, lua/parts/key_uses.lua says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from antiphon_core import limits
from antiphon_core.ports.store import Fence, Stamp, TurnRequest, TurnStart
from antiphon_store.backends.base import Write
from antiphon_store.backends.redis import answers, scripts
from antiphon_store.backends.redis.calls import NONE, PRECONDITION_FENCE, Argument, fence_arguments, write_arguments
from antiphon_store.backends.redis.contexts import Look
from antiphon_store.backends.redis.engine import Engine
from antiphon_store.backends.redis.turns import begun, turn_arguments


class RedisIdempotency:
    """Implements `roles.idempotency.IdempotencyAtoms` for RedisBackend. Unimplemented where a tenant's data are not in
    one slot: a key and its response would not be in one atom."""

    async def begin_turn_once(self: Engine, tenant: str, request: TurnRequest, *, claim_ttl_ms: int) -> TurnStart:
        key, session_id = request.idempotency_key or "", request.session_id
        keys = [self._keys.key_use(tenant, key, "BeginTurn.idempotency_key")]
        if session_id is not None:
            keys += self._keys.context_keys(tenant, session_id)
        claim: list[Argument] = [key, request.fingerprint, request.response_id or "", claim_ttl_ms]

        async def ask(seen: Look) -> Sequence[Any]:
            turn = [request.previous_response_id or NONE, *turn_arguments(request, seen)]
            arguments = [*turn, *claim, limits.IDEMPOTENCY_MEMORY_MS]
            return await self._run(scripts.BEGIN_TURN_ONCE, tenant, keys, arguments, session_id=session_id or "")

        with self._opened.atom():
            return await begun(request, ask)

    async def commit_turn_once(self: Engine, tenant: str, write: Write, fence: Fence | None, *, key: str) -> Stamp:
        fences = (fence, "fence.session_id"), (write.precondition.fence, PRECONDITION_FENCE)
        keys = [self._keys.key_use(tenant, key, "CommitTurn.idempotency_key")]
        keys += self._record_keys(tenant, write.record.id, *fences)
        arguments = [*write_arguments(write), *fence_arguments(fence), key, limits.IDEMPOTENCY_MEMORY_MS]
        return answers.stamp(await self._run(scripts.COMMIT_TURN_ONCE, tenant, keys, arguments))

    async def put_once(self: Engine, tenant: str, write: Write, *, key: str, fingerprint: bytes) -> Stamp:
        keys = [self._keys.key_use(tenant, key, "Put.idempotency_key")]
        keys += self._record_keys(tenant, write.record.id, (write.precondition.fence, PRECONDITION_FENCE))
        arguments = [*write_arguments(write), key, fingerprint, limits.IDEMPOTENCY_MEMORY_MS]
        return answers.stamp(await self._run(scripts.PUT_ONCE, tenant, keys, arguments))

    async def forget_key(self: Engine, tenant: str, key: str, response_id: str) -> None:
        keys = [self._keys.key_use(tenant, key, "AbortTurn.idempotency_key")]
        await self._run(scripts.FORGET_KEY, tenant, keys, [response_id])
