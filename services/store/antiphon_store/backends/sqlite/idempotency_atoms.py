"""The atoms of `roles.idempotency.IdempotencyAtoms` as functions of a connection and the time.

All of them run inside a transaction of the writer, and extend the plain atoms.
"""

from __future__ import annotations

import sqlite3

from antiphon_core.ports.store import Fence, History, Stamp, TurnRequest, TurnStart
from antiphon_store.backends import idempotency
from antiphon_store.backends.base import Write
from antiphon_store.backends.sqlite import atoms, idempotency_rows, nodes

_Connection = sqlite3.Connection


def begin_turn(
    connection: _Connection, tenant: str, request: TurnRequest, *, claim_ttl_ms: int, now_ms: int
) -> TurnStart:
    key = request.idempotency_key or ""
    use = idempotency.in_force(idempotency_rows.read(connection, tenant, key), key, request.fingerprint, now_ms)
    if use is not None and use.stamp is not None:
        record = nodes.read(connection, tenant, use.response_id, now_ms)
        if record is not None:
            return TurnStart(History(), replay=record)
    elif use is not None and use.response_id != request.response_id:
        return TurnStart(History(), running_response_id=use.response_id)
    start = _begin(connection, tenant, request, now_ms)
    claimed = idempotency.claimed(request, ttl_ms=claim_ttl_ms, now_ms=now_ms)
    idempotency_rows.write(connection, tenant, key, claimed, now_ms)
    return start


def commit_turn(
    connection: _Connection, tenant: str, write: Write, fence: Fence | None, *, key: str, now_ms: int
) -> Stamp:
    use = idempotency_rows.read(connection, tenant, key)
    idempotency.require_own(use, key, write.record.id, now_ms)
    stamp = atoms.commit_turn(connection, tenant, write, fence, now_ms)
    bound = idempotency.bound(use, write.record, stamp, fingerprint=None, now_ms=now_ms)
    idempotency_rows.write(connection, tenant, key, bound, now_ms)
    return stamp


def put(connection: _Connection, tenant: str, write: Write, *, key: str, fingerprint: bytes, now_ms: int) -> Stamp:
    use = idempotency_rows.read(connection, tenant, key)
    idempotency.require_own(use, key, write.record.id, now_ms)
    in_force = idempotency.in_force(use, key, fingerprint, now_ms)
    if in_force is not None and in_force.stamp is not None:
        return in_force.stamp
    stamp = atoms.put(connection, tenant, write, now_ms)
    bound = idempotency.bound(use, write.record, stamp, fingerprint=fingerprint, now_ms=now_ms)
    idempotency_rows.write(connection, tenant, key, bound, now_ms)
    return stamp


def forget_key(connection: _Connection, tenant: str, key: str, response_id: str) -> None:
    use = idempotency_rows.read(connection, tenant, key)
    if use is not None and use.stamp is None and use.response_id == response_id:
        idempotency_rows.drop(connection, tenant, key)


def _begin(connection: _Connection, tenant: str, request: TurnRequest, now_ms: int) -> TurnStart:
    if request.session_id is None:
        return atoms.begin_after(connection, tenant, request, now_ms)
    return atoms.begin_in_session(connection, tenant, request.session_id, request, now_ms)
