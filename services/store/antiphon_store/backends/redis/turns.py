"""How turns begin on the Redis engine. The outcomes that scripts answer: lua/parts/beginnings.lua."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from antiphon_core.errors import InternalError, SessionLocked
from antiphon_core.ports.store import History, TurnRequest, TurnStart
from antiphon_store.backends.bounds import ChainBounds
from antiphon_store.backends.redis import answers, scripts
from antiphon_store.backends.redis.calls import Argument
from antiphon_store.backends.redis.contexts import LOOKS_MAX, Look, context_arguments, look
from antiphon_store.backends.redis.engine import Engine


class RedisTurns:
    """Implements `begin_turn` of `base.Backend` for RedisBackend."""

    async def begin_turn(self: Engine, tenant: str, request: TurnRequest) -> TurnStart:
        session_id, previous_id = request.session_id, request.previous_response_id
        behind: list[Argument] = []
        if session_id is not None:
            self._keys.require_turns(session_id, field="session_id")
            script, keys = scripts.BEGIN_IN_SESSION, self._keys.context_keys(tenant, session_id)
        elif previous_id is not None:
            script, keys, behind = scripts.BEGIN_AFTER, [self._keys.tree_root(tenant, previous_id)], [previous_id]
        else:
            self._opened.require_open()
            return TurnStart(History())

        async def ask(seen: Look) -> Sequence[Any]:
            arguments = [*behind, *turn_arguments(request, seen)]
            return await self._run(script, tenant, keys, arguments, session_id=session_id or "")

        with self._opened.atom():
            return await begun(request, ask)


def turn_arguments(request: TurnRequest, seen: Look) -> list[Argument]:
    """As `parse_turn` in lua/parts/beginnings.lua reads them."""
    return [request.holder, request.lease_ttl_ms, *context_arguments(_bounds(request), seen)]


async def begun(request: TurnRequest, ask: Callable[[Look], Awaitable[Sequence[Any]]]) -> TurnStart:
    """A turn as it began. `ask` runs its script, with what was seen so far.

    SessionLocked: others used the session whenever we looked. ChainTooLong: nothing was taken, then."""
    seen = Look()
    for _ in range(LOOKS_MAX):
        outcome, *facts = await ask(seen)
        if outcome != b"look":
            return _start(request, outcome, facts, seen)
        seen = look(facts, _bounds(request))
    raise SessionLocked.of(request.session_id or "")


def _start(request: TurnRequest, outcome: bytes, facts: Sequence[Any], seen: Look) -> TurnStart:
    session_id = request.session_id or ""
    match outcome:
        case b"begun":
            lease, head_id, metas, items = facts
            history = answers.history(head_id.decode(), (metas, items))
            return TurnStart(history, answers.lease(session_id, lease) if lease else None)
        case b"as_seen":
            return TurnStart(seen.history, answers.lease(session_id, facts[0]))
        case b"running":
            return TurnStart(History(), running_response_id=facts[0].decode())
        case b"replay":
            return TurnStart(History(), replay=answers.record(facts))
        case _:
            raise InternalError(f"A script began a turn in a way that is not known: {outcome!r}.")


def _bounds(request: TurnRequest) -> ChainBounds:
    name = request.session_id or request.previous_response_id or ""
    return ChainBounds(name, request.max_depth, request.max_bytes)
