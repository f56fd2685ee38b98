"""Entries of indexes: filed, taken off, and read in order.

Functions here are parts of primitives: they run inside the transaction of their caller.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from functools import cache
from typing import Any

from antiphon_store.rows.model import TENANT_WIDE, Entry, Fewer, Index, Partition, Unfile

_KEY = "tenant = ? AND tree = ? AND name = ? AND key = ?"
_UNFILE = f"DELETE FROM entry WHERE {_KEY} AND id = ?"  # noqa: S608 - constants, here and below
_UNFILE_BY_ID = (
    "DELETE FROM entry WHERE tenant = ? AND tree = ? AND name = ? AND name IN ('ends', 'queue', 'holder') "
    "AND key = ? AND id = ?"
)
_INSERT = "INSERT OR REPLACE INTO entry (tenant, tree, name, key, id, at) VALUES"
_LINE = "(?, ?, ?, ?, ?, ?)"
_LINE_VALUES = 6
_COUNT = f"SELECT count(*) FROM (SELECT 1 FROM entry WHERE {_KEY} LIMIT ?)"  # noqa: S608
_DUE = f"SELECT id, at FROM entry WHERE {_KEY} AND at <= ? ORDER BY at, id LIMIT ?"  # noqa: S608
_NEXT_TENANT = "SELECT tenant FROM entry WHERE tenant > ? ORDER BY tenant LIMIT 1"
_HAS_ENDS = "SELECT 1 FROM entry WHERE tenant = ? AND tree = '' AND name = 'ends' LIMIT 1"

FOUND_BY_ID = frozenset({Index.ENDS, Index.QUEUE, Index.HOLDER})  # of these a second line of an id replaces the first

LINES_MAX = 100  # in one statement

Scope = tuple[str, str]  # the tenant and the tree that an index belongs to


def scope_of(partition: Partition, index: Index) -> Scope:
    return (partition.tenant, "") if index in TENANT_WIDE else partition


def file(connection: sqlite3.Connection, lines: Mapping[tuple[Any, ...], int]) -> None:
    """Writes entries in one statement: of each the scope, index, key and id, and when. Those of indexes that are not
    FOUND_BY_ID must not be there."""
    values = [value for line, at in lines.items() for value in (*line, at)]
    for start in range(0, len(values), _LINE_VALUES * LINES_MAX):
        part = values[start : start + _LINE_VALUES * LINES_MAX]
        connection.execute(_filing(len(part) // _LINE_VALUES), part)


@cache
def _filing(count: int) -> str:
    return f"{_INSERT} {', '.join([_LINE] * count)}"


def unfile(connection: sqlite3.Connection, partition: Partition, unfile_: Unfile) -> None:
    query = _UNFILE_BY_ID if unfile_.of in FOUND_BY_ID else _UNFILE
    connection.execute(query, (*scope_of(partition, unfile_.of), *unfile_))


def has_fewer(connection: sqlite3.Connection, partition: Partition, fewer: Fewer) -> bool:
    scope = scope_of(partition, fewer.of)
    (count,) = connection.execute(_COUNT, (*scope, fewer.of, fewer.key, fewer.bound)).fetchone()
    return bool(count < fewer.bound)


def page(
    connection: sqlite3.Connection,
    partition: Partition,
    index: Index,
    key: str,
    *,
    after: tuple[int, str] | None,
    limit: int,
    descending: bool,
) -> list[Entry]:
    """Entries behind a line, in either direction."""
    direction, beyond = ("DESC", "<") if descending else ("ASC", ">")
    behind = f"AND (at, id) {beyond} (?, ?)" if after is not None else ""
    query = f"SELECT id, at FROM entry WHERE {_KEY} {behind} ORDER BY at {direction}, id {direction} LIMIT ?"  # noqa: S608
    found = connection.execute(query, (*scope_of(partition, index), index, key, *(after or ()), limit))
    return [Entry(*line) for line in found.fetchall()]


def take_due(
    connection: sqlite3.Connection, scope: Scope, index: Index, key: str, *, limit: int, now_ms: int, hide_ms: int
) -> list[Entry]:
    """The first entries that are due, each of which is moved."""
    due = connection.execute(_DUE, (*scope, index, key, now_ms, limit)).fetchall()
    if due:
        file(connection, {(*scope, index, key, entry_id): now_ms + hide_ms for entry_id, _ in due})
    return [Entry(*line) for line in due]


def tenants(connection: sqlite3.Connection) -> list[str]:
    """The tenants with entries in ENDS."""
    found = []
    step = connection.execute(_NEXT_TENANT, ("",)).fetchone()
    while step is not None:
        if connection.execute(_HAS_ENDS, step).fetchone() is not None:
            found.append(step[0])
        step = connection.execute(_NEXT_TENANT, step).fetchone()
    return found
