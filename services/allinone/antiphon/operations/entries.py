"""The index entries of a row, computed for an import: an export has rows only."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from antiphon_core.ports.jobs import DISPATCH_QUEUE
from antiphon_store.decisions import jobs, nodes, tenant_line
from antiphon_store.rows.model import File, Index, Kind, Ref, Row, Unfile, made_id


def entries_of(ref: Ref, row: Row) -> Iterator[File | Unfile]:
    """Yields the index entries that a row has, each with its time (File), and those that it lost (Unfile)."""
    kind, row_id = ref
    if kind in _OF_KIND:
        yield from _OF_KIND[kind](row_id, row)
    elif (ends_at := row.fields.get("until", row.fields.get("expires"))) is not None:
        yield File(Index.ENDS, "", f"{kind}/{row_id}", ends_at)


def _of_node(row_id: str, row: Row) -> Iterator[File | Unfile]:
    fields, born_at = row.fields, row.fields["created"]
    if fields["parent"] is not None:
        yield File(Index.CHILDREN, fields["parent"], row_id, born_at)
    if fields["session"] is not None:
        made = fields["session"], made_id(fields["depth"], row_id)
        is_listed = not fields["deleted"] or fields.get("added")
        yield File(Index.MADE, *made, born_at) if is_listed else Unfile(Index.MADE, *made)
    for item_id in nodes.item_ids(row):
        yield File(nodes.item_index(item_id, row_id), item_id, row_id, born_at)
    ends_at = fields["updated"] if fields["deleted"] and not fields.get("added") else fields["expires"]
    if ends_at is not None:
        yield File(Index.ENDS, "", f"{Kind.NODE}/{row_id}", ends_at)


def _of_job(row_id: str, row: Row) -> Iterator[File | Unfile]:
    fields = row.fields
    is_held = fields["holder"] != jobs.NOBODY
    if fields["ended"] is None:
        due_at = fields["lease_until" if is_held else "available"]
        yield File(Index.QUEUE, fields["queue"], row_id, min(due_at, fields.get("stamp", due_at) + jobs.LOOK_MS))
    if is_held:
        yield File(Index.HOLDER, jobs.held_key(fields["queue"], fields["holder"]), row_id, fields["lease_until"])
    ends_at = fields["lease_until"] + fields["retention"] if is_held else jobs.forgettable_at(fields)
    if ends_at is not None:
        yield File(Index.ENDS, "", f"{Kind.JOB}/{row_id}", ends_at)


def _of_lineage(row_id: str, row: Row) -> Iterator[File]:
    if key := row.fields.get("key"):
        yield File(Index.RESENT, key, row_id, 0)


def _of_session(row_id: str, row: Row) -> Iterator[File]:
    if row.fields.get("responses_until") is not None:
        yield File(Index.ENDS, "", f"{Kind.SESSION}/{row_id}", 0)


def _of_approval(row_id: str, row: Row) -> Iterator[File]:
    if row.fields["used_by"] is None or row.fields["taken_until"] is not None:
        yield File(Index.ASKED, "", row_id, row.fields["created"])


def _of_line(row_id: str, row: Row) -> Iterator[File]:
    for place, at in tenant_line.places_of(row_id, row):
        yield File(Index.QUEUE, DISPATCH_QUEUE, place, at)


_OF_KIND: dict[Kind, Callable[[str, Row], Iterator[File | Unfile]]] = {
    Kind.NODE: _of_node,
    Kind.LINEAGE: _of_lineage,
    Kind.JOB: _of_job,
    Kind.SESSION: _of_session,
    Kind.APPROVAL: _of_approval,
    Kind.LINE: _of_line,
}
