"""The atoms of lineage that read: lists, trees, items. Where one needs several statements, a transaction lets all of
them see one moment."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from antiphon_core.errors import ResponseNotFound
from antiphon_core.ports.lineage import ResolvedItem, TreeNode
from antiphon_core.ports.store import Order, Record, Status
from antiphon_store.backends import node_rows
from antiphon_store.backends.roles.lineage import Position, Slice, Twig
from antiphon_store.backends.slices import ByteBudget, require_nodes, size_bytes, take_records
from antiphon_store.backends.sqlite import item_index, nodes
from antiphon_store.backends.sqlite.lineage_queries import QUERIES

_LISTS = {Order.ASCENDING: QUERIES["list_ascending"], Order.DESCENDING: QUERIES["list_descending"]}
_ROOT_OF = QUERIES["root_of"]
_SUBTREE = QUERIES["subtree"]
_CHILDREN = QUERIES["children"]

_INT64_MAX = 2**63 - 1
_BEFORE_ALL = Position(-1, -1, "")
_BEHIND_ALL = Position(_INT64_MAX, _INT64_MAX, "")


def fetch_many(
    connection: sqlite3.Connection, tenant: str, ids: Sequence[str], now_ms: int, *, max_bytes: int
) -> list[Record]:
    budget = ByteBudget(max_bytes, field="ids")
    found = []
    with _one_moment(connection):
        for response_id in ids:
            record = nodes.read(connection, tenant, response_id, now_ms)
            if record is not None:
                budget.use(size_bytes(record))
                found.append(record)
    return found


def session_records(
    connection: sqlite3.Connection,
    tenant: str,
    session_id: str,
    now_ms: int,
    *,
    after: Position | None,
    limit: int,
    order: Order,
    max_bytes: int,
) -> Slice[Record]:
    start = after or (_BEFORE_ALL if order is Order.ASCENDING else _BEHIND_ALL)
    rows = connection.execute(
        _LISTS[order],
        {"tenant": tenant, "session_id": session_id, "now_ms": now_ms, **_columns(start)},
    )
    try:
        return take_records(map(node_rows.to_record, rows), limit=limit, max_bytes=max_bytes)
    finally:
        rows.close()


def find_items(
    connection: sqlite3.Connection, tenant: str, item_ids: Sequence[str], now_ms: int, *, max_bytes: int
) -> list[ResolvedItem]:
    with _one_moment(connection):
        return item_index.find(connection, tenant, item_ids, now_ms, max_bytes=max_bytes)


def subtree(
    connection: sqlite3.Connection, tenant: str, response_id: str, now_ms: int, *, from_root: bool, max_nodes: int
) -> list[Twig]:
    with _one_moment(connection):
        place = _readable(connection, tenant, response_id, now_ms)
        if from_root:
            (place,) = connection.execute(_ROOT_OF, {"place": place}).fetchone()
        rows = connection.execute(_SUBTREE, {"place": place, "now_ms": now_ms, "most": max_nodes + 1}).fetchall()
    require_nodes(response_id, len(rows), max_nodes=max_nodes)
    return [
        Twig(id_, parent_id, Status(status), depth, created_at_ms, bool(is_readable))
        for id_, parent_id, status, depth, created_at_ms, is_readable in rows
    ]


def children(
    connection: sqlite3.Connection,
    tenant: str,
    response_id: str,
    now_ms: int,
    *,
    after: Position | None,
    limit: int,
) -> Slice[TreeNode]:
    with _one_moment(connection):
        place = _readable(connection, tenant, response_id, now_ms)
        return _children(connection, place, response_id, now_ms, after=after, limit=limit)


def siblings(
    connection: sqlite3.Connection,
    tenant: str,
    response_id: str,
    now_ms: int,
    *,
    after: Position | None,
    limit: int,
) -> Slice[TreeNode]:
    with _one_moment(connection):
        record = nodes.read(connection, tenant, response_id, now_ms)
        if record is None:
            raise ResponseNotFound.of(response_id)
        parent = nodes.find(connection, tenant, record.parent_id) if record.parent_id else None
        if parent is None or record.parent_id is None:
            return Slice([])
        return _children(
            connection, parent.place, record.parent_id, now_ms, after=after, limit=limit, except_id=response_id
        )


def _children(
    connection: sqlite3.Connection,
    place: int,
    parent_id: str,
    now_ms: int,
    *,
    after: Position | None,
    limit: int,
    except_id: str = "",
) -> Slice[TreeNode]:
    arguments = {"place": place, "parent_id": parent_id, "except_id": except_id, "now_ms": now_ms, "most": limit + 1}
    rows = connection.execute(_CHILDREN, {**arguments, **_columns(after or _BEFORE_ALL)}).fetchall()
    found = [
        TreeNode(id_, parent_id, Status(status), depth, child_count, created_at_ms)
        for id_, parent_id, status, depth, created_at_ms, child_count in rows[:limit]
    ]
    return Slice(found, has_more=len(rows) > limit)


def _readable(connection: sqlite3.Connection, tenant: str, response_id: str, now_ms: int) -> int:
    """The place of a readable response. ResponseNotFound."""
    node = nodes.find(connection, tenant, response_id)
    if node is None or not node.is_readable(now_ms):
        raise ResponseNotFound.of(response_id)
    return node.place


def _columns(position: Position) -> dict[str, int | str]:
    return {"depth": position.depth, "created_at_ms": position.created_at_ms, "id": position.id}


@contextmanager
def _one_moment(connection: sqlite3.Connection) -> Iterator[None]:
    if connection.in_transaction:  # a reader's
        yield
        return
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")  # nothing was written
