"""Reads of trees: chains, roots, nodes and sessions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from antiphon_core.ports.lineage import Node
from antiphon_core.ports.store import Record, Status
from antiphon_store.decisions import nodes, records, turns
from antiphon_store.rows.model import Chain, Entry, Get, Kind, Payload, Range, Ref, Row
from antiphon_store.rows.view import Finish, View, answer

ANY_BYTES = 2**62
ANY_DEPTH = 2**31


def chain(view: View, response_id: str, *, max_depth: int, max_bytes: int) -> Finish[Sequence[Record]]:
    """Reads a readable record and all its ancestors, root first. ResponseNotFound, ChainTooLong."""
    records.require_readable(view, response_id)
    if view.too_long:
        raise turns.too_long(response_id, view.too_long, max_depth, max_bytes)
    return view.answer_from(nodes.to_records, Chain(response_id, Payload.ALL, max_depth, max_bytes))


def readable_fields(view: View, response_id: str) -> Finish[Mapping[str, Any]]:
    """Reads the fields of a readable response. ResponseNotFound."""
    records.require_readable(view, response_id)
    return view.answer_from(lambda row: row.fields, Get(Ref(Kind.NODE, response_id)))


def context_ids(view: View, session_id: str) -> Finish[tuple[frozenset[str], frozenset[str]]]:
    """Reads the ids of the nodes that a turn in a session would continue, and of the items removed from its context."""
    return view.answer_from(
        lambda session, chain: (frozenset(chain.ids), frozenset(turns.removed_from(session))),
        *turns.context(session_id, Payload.NONE, ANY_DEPTH, ANY_BYTES),
    )


def rows_of(view: View, response_ids: Sequence[str]) -> Finish[tuple[int, list[Row | None]]]:
    """Reads nodes with their payloads, and the time."""
    rows = view.need_all(*((Kind.NODE, each) for each in response_ids))
    now_ms = view.now_ms
    return answer((now_ms, rows))


def sessions_of(view: View) -> Finish[Sequence[tuple[str, Row]]]:
    """Reads all sessions of a tree."""
    return view.answer_from(list, Range(Kind.SESSION, "", "", ANY_BYTES))


def tree_node(entry: Entry, now_ms: int, *, child_count: int = 0) -> Node:
    """Makes the answer for a node from an index entry that comes with its row."""
    fields = entry.row.fields if entry.row is not None else {}
    return Node(
        id=entry.id,
        parent_id=fields["parent"],
        status=Status(fields["status"]) if nodes.is_readable(entry.row, now_ms) else None,
        depth=fields["depth"],
        child_count=child_count,
        created_at_ms=fields["created"],
    )
