"""The atoms that write responses: one statement, with or without a session's fence and an idempotency key."""

from __future__ import annotations

from antiphon_core import limits
from antiphon_core.ports.store import Fence, Stamp
from antiphon_store.backends.base import Write
from antiphon_store.backends.postgres import rows
from antiphon_store.backends.postgres.asking import Asking
from antiphon_store.backends.postgres.event_logs import NO_BATCH, batch_parameters
from antiphon_store.backends.postgres.lineage import digests_of
from antiphon_store.backends.postgres.outcomes import AGAIN, Asked, Outcome
from antiphon_store.backends.postgres.rows import Parameters
from antiphon_store.backends.postgres.server import Connection

_NO_KEY: Parameters = dict.fromkeys(("key", "fingerprint", "memory_ms"))


class PostgresWrites(Asking):
    """`put` and `commit_turn` of `base.Backend`, and all of `roles.idempotency.IdempotencyAtoms` but its begin."""

    async def put(self, tenant: str, write: Write) -> Stamp:
        return await self._write(tenant, write, _NO_KEY, Asked.of(write))

    async def put_once(self, tenant: str, write: Write, *, key: str, fingerprint: bytes) -> Stamp:
        return await self._write(tenant, write, _under(key, fingerprint), Asked.of(write, key=key))

    async def commit_turn(self, tenant: str, write: Write, fence: Fence | None) -> Stamp:
        return await self._write(tenant, write, _NO_KEY, Asked.of(write, turn=fence))

    async def commit_turn_once(self, tenant: str, write: Write, fence: Fence | None, *, key: str) -> Stamp:
        return await self._write(tenant, write, _under(key, None), Asked.of(write, turn=fence, key=key))

    async def forget_key(self, tenant: str, key: str, response_id: str) -> None:
        await self._run("forget_key", {"tenant": tenant, "key": key.encode(), "response_id": response_id})

    async def _write(self, tenant: str, write: Write, key: Parameters, asked: Asked) -> Stamp:
        """Shares the trees with other writers; the rare write that cannot asks a second time, for all of them."""
        end = write.log_end
        parameters = {
            "tenant": tenant,
            "digests": digests_of(write.item_ids),
            **rows.write_parameters(write),
            **(NO_BATCH if end is None else batch_parameters(end.append, end.ttl_ms)),
            "turn_session": asked.turn.session_id if asked.turn else None,
            "turn_token": asked.turn.token if asked.turn else None,
            **key,
        }

        async def atom(connection: Connection) -> Outcome:
            outcome = Outcome.of(await self._ask(connection, "write", {**parameters, "exclusive": False}))
            if outcome.name == AGAIN:
                outcome = Outcome.of(await self._ask(connection, "write", {**parameters, "exclusive": True}))
            return outcome

        return (await self._connections.run(atom)).stamp(asked)


def _under(key: str, fingerprint: bytes | None) -> Parameters:
    return {"key": key.encode(), "fingerprint": fingerprint, "memory_ms": limits.IDEMPOTENCY_MEMORY_MS}
