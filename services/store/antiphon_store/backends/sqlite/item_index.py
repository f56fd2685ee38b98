"""Which responses an item is in. Rows are written with the response; a trigger takes them out with it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence

from antiphon_core.ports.lineage import ResolvedItem
from antiphon_store.backends import packing
from antiphon_store.backends.item_search import pick
from antiphon_store.backends.node_rows import require_intact
from antiphon_store.backends.slices import ByteBudget
from antiphon_store.backends.sqlite.lineage_queries import QUERIES

_INSERT = QUERIES["insert_item"]
_DROP = QUERIES["drop_items"]
_FIND = QUERIES["find_item"]
_READ = QUERIES["read_items"]


def write(connection: sqlite3.Connection, tenant: str, place: int, item_ids: Iterable[str]) -> None:
    """The items of a response that is new."""
    connection.executemany(_INSERT, ({"tenant": tenant, "id": each, "place": place} for each in item_ids))


def drop(connection: sqlite3.Connection, place: int) -> None:
    """A response that was deleted has no items that could be found."""
    connection.execute(_DROP, {"place": place})


def rewrite(connection: sqlite3.Connection, tenant: str, place: int, item_ids: Iterable[str]) -> None:
    """The items of a response that was replaced."""
    drop(connection, place)
    write(connection, tenant, place, item_ids)


def find(
    connection: sqlite3.Connection, tenant: str, item_ids: Sequence[str], now_ms: int, *, max_bytes: int
) -> list[ResolvedItem]:
    """The items that are in a readable response, or stand in the conversation that they were added to, in the order of
    `item_ids`. Each node is read once."""
    wanted: dict[int, set[str]] = {}
    for item_id in item_ids:
        row = connection.execute(_FIND, {"tenant": tenant, "id": item_id, "now_ms": now_ms}).fetchone()
        if row:
            wanted.setdefault(row[0], set()).add(item_id)
    budget = ByteBudget(max_bytes, field="item_ids")
    found: dict[str, ResolvedItem] = {}
    for item in _read(connection, wanted):
        budget.use(len(item.item))
        found[item.id] = item
    return [found[item_id] for item_id in item_ids if item_id in found]


def _read(connection: sqlite3.Connection, wanted: dict[int, set[str]]) -> Iterator[ResolvedItem]:
    for place, item_ids in wanted.items():
        response_id, items_crc, input_bytes, items = connection.execute(_READ, {"place": place}).fetchone()
        require_intact(response_id, items_crc, packing.checksum(response_id, input_bytes, items))
        yield from pick(response_id, packing.unpack(items, input_bytes), item_ids).values()
