"""The atom of `roles.retention` as a function of a connection and the time, and the thread that runs it.

One atom reclaims a few hundred at most, because all other writes wait for it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import NamedTuple

from antiphon_core.ports.retention import Sweeping
from antiphon_store.backends import named_queries
from antiphon_store.backends.places import branch_of
from antiphon_store.backends.sqlite import conversation_atoms, event_log_rows, job_rows, lineage
from antiphon_store.backends.sqlite.queries import QUERIES as STORE_QUERIES
from antiphon_store.backends.sqlite.threads import Threads

ATOM_RECORDS_MAX = 256

QUERIES = named_queries.load("antiphon_store.backends.sqlite", "sweeping.sql")

_EXPIRED_LEAVES = QUERIES["expired_leaves"]
_RECLAIMABLE_LEAF = QUERIES["reclaimable_leaf"]
_DROP_LEAF = QUERIES["drop_leaf"]
_EXPIRED_CONVERSATIONS = QUERIES["expired_conversations"]
_EXPIRED_LOGS = QUERIES["expired_logs"]
_FORGETTABLE_JOBS = QUERIES["forgettable_jobs"]
_TENANTS = QUERIES["tenants"]
_EXPIRE_HIDDEN = QUERIES["expire_hidden"]
_DROP_BRANCH = STORE_QUERIES["drop_branch"]


class Swept(NamedTuple):
    records: int
    size_bytes: int


class SqliteRetention:
    """Implements `roles.retention.RetentionAtoms` for SqliteBackend."""

    async def sweep(self: Threads, tenant: str, *, limit: int) -> Sweeping:
        most = min(limit, ATOM_RECORDS_MAX)
        return await self._writes.run(lambda connection: sweep(connection, tenant, limit=most, now_ms=self._now_ms()))

    async def tenants(self: Threads) -> Sequence[str]:
        return await self._reads.run(lambda connection: [tenant for (tenant,) in connection.execute(_TENANTS)])


def sweep(connection: sqlite3.Connection, tenant: str, *, limit: int, now_ms: int) -> Sweeping:
    records, size_bytes = 0, 0
    for reclaim in (_conversations, _nodes, _logs, _jobs):
        swept = reclaim(connection, tenant, limit - records, now_ms)
        records, size_bytes = records + swept.records, size_bytes + swept.size_bytes
    parameters = {"tenant": tenant, "now_ms": now_ms, "limit": 1}
    has_more = any(
        connection.execute(statement, parameters).fetchone()
        for statement in (_EXPIRED_CONVERSATIONS, _EXPIRED_LEAVES, _EXPIRED_LOGS, _FORGETTABLE_JOBS)
    )
    return Sweeping(records, size_bytes, has_more)


def _nodes(connection: sqlite3.Connection, tenant: str, limit: int, now_ms: int) -> Swept:
    """From expired leaves upwards, one response at a time: a leaf that goes may make its parent the next one. A deleted
    one that the limit leaves for the next sweep is made to be found by it."""
    parameters = {"tenant": tenant, "now_ms": now_ms, "limit": limit}
    records, size_bytes = 0, 0
    for (leaf,) in connection.execute(_EXPIRED_LEAVES, parameters).fetchall():
        place: int | None = leaf
        while place is not None and records < limit:
            found = connection.execute(_RECLAIMABLE_LEAF, {"place": place, "now_ms": now_ms}).fetchone()
            if found is None:
                break
            records, size_bytes = records + 1, size_bytes + found[0]
            place = _drop_leaf(connection, place)
        if records == limit and place is not None:
            connection.execute(_EXPIRE_HIDDEN, {"place": place, "now_ms": now_ms})
    return Swept(records, size_bytes)


def _drop_leaf(connection: sqlite3.Connection, place: int) -> int | None:
    """Lets go of a response that nothing continues: the place of its parent."""
    parent = lineage.parent_of(connection, place)
    connection.execute(_DROP_LEAF, {"place": place})
    if parent is None or branch_of(parent) != branch_of(place):
        connection.execute(_DROP_BRANCH, {"branch": branch_of(place)})
    return parent


def _conversations(connection: sqlite3.Connection, tenant: str, limit: int, now_ms: int) -> Swept:
    parameters = {"tenant": tenant, "now_ms": now_ms, "limit": limit}
    found = connection.execute(_EXPIRED_CONVERSATIONS, parameters).fetchall()
    for conversation_id, _size_bytes in found:
        conversation_atoms.end(connection, tenant, conversation_id, now_ms)
    return Swept(len(found), sum(size_bytes for _id, size_bytes in found))


def _logs(connection: sqlite3.Connection, tenant: str, limit: int, now_ms: int) -> Swept:
    return _rows(connection, _EXPIRED_LOGS, event_log_rows.drop, tenant, limit, now_ms)


def _jobs(connection: sqlite3.Connection, tenant: str, limit: int, now_ms: int) -> Swept:
    return _rows(connection, _FORGETTABLE_JOBS, job_rows.drop, tenant, limit, now_ms)


def _rows(
    connection: sqlite3.Connection,
    statement: str,
    drop: Callable[[sqlite3.Connection, int], None],
    tenant: str,
    limit: int,
    now_ms: int,
) -> Swept:
    found = connection.execute(statement, {"tenant": tenant, "now_ms": now_ms, "limit": limit}).fetchall()
    for row, _size_bytes in found:
        drop(connection, row)
    return Swept(len(found), sum(size_bytes for _row, size_bytes in found))
