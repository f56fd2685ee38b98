"""Entries of indexes: filed, taken off, and read in order.

Functions here are parts of primitives: they run inside the transaction of their caller.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from functools import cache
from typing import Any

from antiphon_store.rows.model import TENANT_WIDE, Entry, Fewer, Index, Partition, Unfile

_KEY = "scope = ? AND name = ? AND key = ?"
_UNFILE = f"DELETE FROM entry WHERE {_KEY} AND id = ?"  # noqa: S608 - constants, here and below
_UNFILE_BY_ID = (
    "DELETE FROM entry WHERE tree = ? AND name = ? AND name IN ('ends', 'queue', 'holder') AND key = ? AND id = ?"
)
_INSERT = "INSERT OR REPLACE INTO entry (scope, name, key, id, at, tree) VALUES"
_LINE = "(?, ?, ?, ?, ?, ?)"
_LINE_VALUES = 6
_COUNT = f"SELECT count(*) FROM (SELECT 1 FROM entry WHERE {_KEY} LIMIT ?)"  # noqa: S608
_DUE = f"SELECT id, at FROM entry WHERE {_KEY} AND at <= ? ORDER BY at, id LIMIT ?"  # noqa: S608
_MOVE = f"UPDATE entry SET at = ? WHERE {_KEY} AND at = ? AND id = ?"  # noqa: S608
_NEXT_TENANT = "SELECT scope FROM entry WHERE scope > ? ORDER BY scope LIMIT 1"  # numbers are before names
_HAS_ENDS = "SELECT 1 FROM entry WHERE scope = ? AND name = 'ends' LIMIT 1"
_FIND_TREE = "SELECT number FROM tree WHERE tenant = ? AND tag = ?"

FOUND_BY_ID = frozenset({Index.ENDS, Index.QUEUE, Index.HOLDER})  # of these a second line of an id replaces the first

LINES_MAX = 100  # in one statement

Scope = str | int  # the tenant or the tree that an index belongs to


def number_of(connection: sqlite3.Connection, partition: Partition) -> int:
    """The number of a tree; 0 when nothing was written in it."""
    found = connection.execute(_FIND_TREE, partition).fetchone()
    return found[0] if found is not None else 0


def scope_of(tenant: str, tree: int, index: Index) -> Scope:
    return tenant if index in TENANT_WIDE else tree


def file(connection: sqlite3.Connection, tree: int, lines: Mapping[tuple[Any, ...], int]) -> None:
    """Writes entries in one statement: of each the scope, index, key and id, and when. Those of indexes that are not
    FOUND_BY_ID must not be there."""
    values = [value for line, at in lines.items() for value in (*line, at, tree)]
    for start in range(0, len(values), _LINE_VALUES * LINES_MAX):
        part = values[start : start + _LINE_VALUES * LINES_MAX]
        connection.execute(_filing(len(part) // _LINE_VALUES), part)


@cache
def _filing(count: int) -> str:
    return f"{_INSERT} {', '.join([_LINE] * count)}"


def unfile(connection: sqlite3.Connection, tenant: str, tree: int, unfile_: Unfile) -> None:
    if unfile_.of in FOUND_BY_ID:
        connection.execute(_UNFILE_BY_ID, (tree, *unfile_[:3]))
    else:
        connection.execute(_UNFILE, (scope_of(tenant, tree, unfile_.of), *unfile_[:3]))


def has_fewer(connection: sqlite3.Connection, partition: Partition, fewer: Fewer) -> bool:
    scope = scope_of(partition.tenant, number_of(connection, partition), fewer.of)
    (count,) = connection.execute(_COUNT, (scope, *fewer)).fetchone()
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
    scope = scope_of(partition.tenant, number_of(connection, partition), index)
    found = connection.execute(query, (scope, index, key, *(after or ()), limit))
    return [Entry(*line) for line in found.fetchall()]


def take_due(
    connection: sqlite3.Connection, tenant: str, index: Index, key: str, *, limit: int, now_ms: int, hide_ms: int
) -> list[Entry]:
    """The first entries that are due, each of which is moved."""
    due = [Entry(*line) for line in connection.execute(_DUE, (tenant, index, key, now_ms, limit)).fetchall()]
    connection.executemany(_MOVE, [(now_ms + hide_ms, tenant, index, key, each.at, each.id) for each in due])
    return due


def tenants(connection: sqlite3.Connection) -> list[str]:
    """The tenants with entries in ENDS."""
    found = []
    step = connection.execute(_NEXT_TENANT, ("",)).fetchone()
    while step is not None:
        if connection.execute(_HAS_ENDS, step).fetchone() is not None:
            found.append(step[0])
        step = connection.execute(_NEXT_TENANT, step).fetchone()
    return found
