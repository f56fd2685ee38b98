"""Forks on the Redis engine: a session that begins from what another made."""

from __future__ import annotations

from antiphon_core.errors import InternalError
from antiphon_core.ids import tree_tag
from antiphon_core.ports.lineage import Fork, ForkSource
from antiphon_core.ports.store import Status
from antiphon_store.backends import forking
from antiphon_store.backends.leases import SessionState
from antiphon_store.backends.redis import scripts
from antiphon_store.backends.redis.answers import Answer
from antiphon_store.backends.redis.calls import NONE, Argument
from antiphon_store.backends.redis.engine import Engine
from antiphon_store.backends.redis.keys import Keyspace


class RedisForks:
    """Implements `fork` of `roles.lineage.LineageAtoms` for RedisBackend."""

    async def fork(self: Engine, tenant: str, source: ForkSource, new_session_id: str) -> Fork:
        _require_together(self._keys, source, new_session_id)
        keys = [self._keys.session_key(tenant, new_session_id)]
        if source.session_id is not None:
            keys.append(self._keys.session_key(tenant, source.session_id))
        words = (source.session_id, source.up_to_response_id, tree_tag(new_session_id))
        arguments: list[Argument] = [word or NONE for word in words]
        is_made, *facts = await self._run(scripts.FORK, tenant, keys, arguments)
        if not is_made:
            _explain(source, new_session_id, facts)
        return Fork(new_session_id, facts[0].decode())


def _require_together(keys: Keyspace, source: ForkSource, new_session_id: str) -> None:
    """InvalidRequest when one atom cannot cover the source and the new session."""
    if source.session_id is not None:
        keys.require_turns(source.session_id, field="session_id")
    if source.session_id is not None and source.up_to_response_id is not None:
        keys.require_together(source.up_to_response_id, source.session_id, field="session_id")
    keys.require_together(source.up_to_response_id or source.session_id or "", new_session_id, field="new_session_id")


def _explain(source: ForkSource, new_session_id: str, facts: Answer) -> None:
    """Raises what the rules say of the facts by which the script refused."""
    source_head, status, made_in, target_head, is_held = facts
    head_id = forking.head_of(
        source,
        session_head_id=source_head.decode() or None,
        status=Status(status.decode()) if status else None,
        made_in=made_in.decode() or None,
    )
    forking.require_kinship(new_session_id, head_id)
    state = SessionState(holder="somebody", lease_expires_at_ms=1) if is_held else SessionState()
    forking.require_free(new_session_id, state, head_id=target_head.decode() or None, now_ms=0)
    raise InternalError(f"A script refused the fork '{new_session_id}', which the rules allow.")
