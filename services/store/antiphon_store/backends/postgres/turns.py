"""The atoms that begin turns: lease, history and the claim of a key in one statement.

Items that were taken out of a conversation are found by parsing, which is done here. Such a turn asks twice: for what
there is, and, when that is short enough, to begin if it is still so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from antiphon_core import limits
from antiphon_core.errors import (
    IdempotencyMismatch,
    InternalError,
    PreviousResponseNotFound,
    PreviousResponseNotReady,
    SessionLocked,
)
from antiphon_core.ports.store import Fence, History, Lease, TurnRequest, TurnStart
from antiphon_store.backends import node_rows
from antiphon_store.backends.bounds import ChainBounds
from antiphon_store.backends.node_rows import Row
from antiphon_store.backends.postgres import rows
from antiphon_store.backends.postgres.asking import Asking
from antiphon_store.backends.postgres.contexts import context_of, removed_of
from antiphon_store.backends.postgres.rows import Parameters

_UNSEEN: Parameters = {"seen_head": None, "seen_removed": None}


@dataclass(frozen=True, slots=True)
class Beginning:
    """What the database answers to the begin of a turn: its last row, and the rows of the history."""

    outcome: str
    head_id: str | None
    token: int
    expires_at_ms: int
    removed: frozenset[str]
    turns: Sequence[Row]
    bound: Row  # the response that the key is bound to; with `replay` only

    @classmethod
    def of(cls, found: Sequence[Row]) -> Beginning:
        *turns, last = found
        outcome, head_id, token, expires_at_ms, removed = last[:5]
        if outcome == "too_long":
            turns = [last]
        history = [turn[5:12] for turn in turns]
        return cls(outcome, head_id, token, expires_at_ms, removed_of(removed), history, last[12:])

    def start(self, request: TurnRequest, history: History) -> TurnStart:
        if request.session_id is None:
            return TurnStart(history)
        return TurnStart(history, Lease(Fence(request.session_id, self.token), request.holder, self.expires_at_ms))


class PostgresTurns(Asking):
    """`begin_turn` of `base.Backend` and `begin_turn_once` of `roles.idempotency.IdempotencyAtoms`."""

    async def begin_turn(self, tenant: str, request: TurnRequest) -> TurnStart:
        if request.session_id is not None:
            return await self._begin("begin_turn", _parameters(tenant, request), request)
        if request.previous_response_id is None:
            self._connections.require_open()
            return TurnStart(History())
        bounds = _bounds(request)
        found = await self._run("history", rows.walk_parameters(tenant, bounds))
        unfinished = found[0][0] if found else None
        if unfinished is not None:
            raise PreviousResponseNotReady.of(request.previous_response_id, status=unfinished)
        history = rows.history_of([row[1:] for row in found], bounds)
        if history is None:
            raise PreviousResponseNotFound.of(request.previous_response_id)
        return TurnStart(history)

    async def begin_turn_once(self, tenant: str, request: TurnRequest, *, claim_ttl_ms: int) -> TurnStart:
        parameters = {
            **_parameters(tenant, request),
            "key": (request.idempotency_key or "").encode(),
            "fingerprint": request.fingerprint,
            "response_id": request.response_id or "",
            "claim_ttl_ms": claim_ttl_ms,
            "memory_ms": limits.IDEMPOTENCY_MEMORY_MS,
            "previous_id": request.previous_response_id,
        }
        return await self._begin("begin_turn_once", parameters, request)

    async def _begin(self, statement: str, parameters: Parameters, request: TurnRequest) -> TurnStart:
        seen, history = _UNSEEN, History()
        while True:
            answer = Beginning.of(await self._run(statement, {**parameters, **seen}))
            if answer.outcome not in ("begun", "edited", "too_long"):
                return _elsewhere(answer, request)
            if answer.outcome != "begun" or not answer.removed:
                head_id = answer.head_id or request.previous_response_id or ""
                history = context_of(answer.turns, head_id, answer.removed, _bounds(request))
            if answer.outcome == "begun":
                return answer.start(request, history)
            seen = {"seen_head": answer.head_id, "seen_removed": len(answer.removed)}


def _elsewhere(answer: Beginning, request: TurnRequest) -> TurnStart:
    """Who asks does not run: the answer is another's, or an error."""
    match answer.outcome:
        case "replay":
            return TurnStart(History(), replay=node_rows.to_record(answer.bound))
        case "running":
            return TurnStart(History(), running_response_id=answer.head_id)
        case "locked":
            raise SessionLocked.of(request.session_id or "")
        case "missing":
            raise PreviousResponseNotFound.of(request.previous_response_id or "")
        case "queued" | "in_progress":
            raise PreviousResponseNotReady.of(request.previous_response_id or "", status=answer.outcome)
        case "other_key":
            raise IdempotencyMismatch.of(request.idempotency_key or "")
    raise InternalError(f"The database gave an outcome that is none: {answer.outcome}.")


def _bounds(request: TurnRequest) -> ChainBounds:
    begins_from = request.session_id or request.previous_response_id or ""
    return ChainBounds(begins_from, request.max_depth, request.max_bytes)


def _parameters(tenant: str, request: TurnRequest) -> dict[str, object]:
    return {
        "tenant": tenant,
        "session_id": request.session_id,
        "holder": request.holder.encode(),
        "ttl_ms": request.lease_ttl_ms,
        "max_depth": request.max_depth,
        "max_bytes": request.max_bytes,
        "whole_bytes": limits.CHAIN_BYTES_MAX,
    }
