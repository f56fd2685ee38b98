"""The shape of the trees: places for new responses, the way from a response to its root, what nothing refers to.

A chain is one statement: the recursion runs over branches only (one step per fork on the way), each of which is one
range of the node table. What lies below a response is found the same way, downwards.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import chain
from typing import Any

from antiphon_core.errors import LimitExceeded
from antiphon_core.ports.store import History, Record, Status
from antiphon_store.backends import node_rows, packing
from antiphon_store.backends.bounds import ChainBounds
from antiphon_store.backends.places import DEPTH_MAX, branch_of, depth_of, place_of
from antiphon_store.backends.sqlite.queries import QUERIES
from antiphon_store.backends.status import require_ended

_CHAIN = QUERIES["chain"]
_HISTORY = QUERIES["history"]
_IS_PLACE_TAKEN = QUERIES["is_place_taken"]
_IS_ANYTHING_KEPT = QUERIES["is_anything_kept"]
_DROP_NODES = QUERIES["drop_nodes"]
_DROP_BRANCHES = QUERIES["drop_branches"]
_DROP_BRANCH = QUERIES["drop_branch"]
_NEW_BRANCH = QUERIES["new_branch"]
_FORK_OF_BRANCH = QUERIES["fork_of_branch"]

_Row = tuple[Any, ...]


def new_place(connection: sqlite3.Connection, parent: int | None) -> int:
    """Where the next child of `parent` goes: behind it in its branch if nothing is there, else in a new branch."""
    if parent is None:
        return place_of(_new_branch(connection, None), 0)
    if depth_of(parent) == DEPTH_MAX:
        raise LimitExceeded(f"A chain of {DEPTH_MAX} responses cannot be continued.")
    taken = connection.execute(_IS_PLACE_TAKEN, {"place": parent + 1}).fetchone()
    if taken is None:
        return parent + 1
    return place_of(_new_branch(connection, parent), depth_of(parent) + 1)


def read_chain(connection: sqlite3.Connection, tenant: str, bounds: ChainBounds, now_ms: int) -> list[Record]:
    """A readable response and its ancestors, root first; empty when it cannot be read. ChainTooLong."""
    records, size_bytes = [], 0
    with _walk(connection, _CHAIN, tenant, bounds, now_ms) as (first, rows):
        if first is not None:
            bounds.require_depth(depth_of(first[-1]) + 1)
        for row in rows:
            record = node_rows.to_record(row)
            size_bytes += len(record.body) + len(record.input_items) + len(record.output_items)
            bounds.require_bytes(size_bytes)
            records.append(record)
    records.sort(key=lambda record: record.depth)
    return records


def read_history(
    connection: sqlite3.Connection, tenant: str, bounds: ChainBounds, now_ms: int, *, of_head: bool = False
) -> History | None:
    """The items of a response and its ancestors; None when it cannot be read. The head of a session may have been
    deleted, but not be expired; any other response must have ended. PreviousResponseNotReady, ChainTooLong."""
    turns, size_bytes = [], 0
    with _walk(connection, _HISTORY, tenant, bounds, now_ms, deleted_too=of_head) as (first, rows):
        if first is None:
            return None
        if not of_head:
            require_ended(bounds.response_id, Status(first[-2]))
        bounds.require_depth(depth_of(first[-1]) + 1)
        for place, response_id, items_crc, input_bytes, items, _tip_status, _tip in rows:
            node_rows.require_intact(response_id, items_crc, packing.checksum(response_id, input_bytes, items))
            size_bytes += len(items)
            bounds.require_bytes(size_bytes)  # stops early; what counts is the length of the whole, below
            turns.append((place, items))
    turns.sort()  # by place, which puts the root first
    joined = packing.join([items for _place, items in turns])
    bounds.require_bytes(len(joined))
    return History(items=joined, depth=len(turns), head_id=bounds.response_id)


def reclaim(connection: sqlite3.Connection, place: int | None, now_ms: int) -> None:
    """Lets go of a response and all below it if nothing of that is kept; then the same for its parent."""
    while place is not None:
        subtree = {"place": place}
        if connection.execute(_IS_ANYTHING_KEPT, {"place": place, "now_ms": now_ms}).fetchone():
            return
        parent = parent_of(connection, place)
        begins_branch = parent is None or branch_of(parent) != branch_of(place)
        connection.execute(_DROP_NODES, subtree)
        connection.execute(_DROP_BRANCHES, subtree)
        if begins_branch:
            connection.execute(_DROP_BRANCH, {"branch": branch_of(place)})
        place = parent


@contextmanager
def _walk(
    connection: sqlite3.Connection,
    statement: str,
    tenant: str,
    bounds: ChainBounds,
    now_ms: int,
    *,
    deleted_too: bool = False,
) -> Iterator[tuple[_Row | None, Iterator[_Row]]]:
    """The rows of a chain, in no order, and the first of them: each ends with the place of the chain's tip, which tells
    the depth.

    A statement that a refusal left half read would hold its connection to that moment: later reads would miss what was
    written since. So it is closed at the end."""
    parameters = {"tenant": tenant, "id": bounds.response_id, "deleted_too": int(deleted_too), "now_ms": now_ms}
    with closing(connection.execute(statement, parameters)) as rows:
        first: _Row | None = next(rows, None)
        yield first, rows if first is None else chain([first], rows)


def _new_branch(connection: sqlite3.Connection, forked_at: int | None) -> int:
    branch = connection.execute(_NEW_BRANCH, {"forked_at": forked_at}).lastrowid
    assert branch is not None  # noqa: S101 - an INSERT always has one
    return branch


def parent_of(connection: sqlite3.Connection, place: int) -> int | None:
    """The place of the response that the one at `place` continues."""
    (forked_at,) = connection.execute(_FORK_OF_BRANCH, {"branch": branch_of(place)}).fetchone()
    first_depth = 0 if forked_at is None else depth_of(forked_at) + 1
    return place - 1 if depth_of(place) > first_depth else forked_at
