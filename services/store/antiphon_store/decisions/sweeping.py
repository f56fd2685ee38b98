"""Cleanup of rows that nothing needs: decisions about one candidate at a time. Cleanup never changes an answer.

ENDS names candidates by when they are worth looking at. One that is still needed is dropped from it, because what makes
it free later names it again: a node when its last child goes or a session's head moves on, anything else when its time
is extended. A decision answers with the bytes that it freed, or None where the candidate stays or does not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from antiphon_store.decisions import conversations, jobs, leases, nodes
from antiphon_store.rows.model import Condition, Entry, Index, Kind, Row, made_id
from antiphon_store.rows.view import Finish, View, answer, nothing


@dataclass(frozen=True, slots=True)
class Family:
    """The rows that may still need a node, read in this order: its `v` if it could not be read, the sessions of its
    tree, its children."""

    dead_version: int | None
    children: Sequence[Entry]
    sessions: Sequence[tuple[str, Row]]


def reclaim(view: View, kind: Kind, row_id: str, *, taken_until: int = 0) -> Finish[int | None]:
    """Takes a row away whose time is over: an event log, a job, a conversation or a key."""
    row = view.need(kind, row_id)
    ends_at = _ends_at(view, kind, row_id, row) if row is not None else None
    if row is None or ends_at is None or ends_at > view.now_ms:
        _reschedule(view, kind, row_id, ends_at, taken_until)
        return nothing
    _reschedule(view, kind, row_id, None, taken_until)
    return answer(_take_away(view, kind, row_id, row))


def reclaim_node(view: View, response_id: str, family: Family, *, taken_until: int = 0) -> Finish[int | None]:
    """Takes a node away that neither is kept nor has children; its parent is a candidate then. Once a node cannot be
    read, only a session that has it as its head makes it another's head, so what `family` saw of sessions afterwards
    still holds; of children a guard tells. A node that changed meanwhile, or got a child, stays: it is looked at
    again."""
    row = view.need(Kind.NODE, response_id)
    if row is None or nodes.is_readable(row, view.now_ms):
        _reschedule(view, Kind.NODE, response_id, None if row is None else row.fields["expires"], taken_until)
        return nothing
    if row.fields["v"] != family.dead_version or view.is_crowded:
        return nothing
    if _was_needed(response_id, row, view.now_ms, family):
        ends_at: int | None = view.now_ms
        if _is_needed_still(view, response_id, family):  # as long as its time is not over
            ends_at = None if nodes.is_expired(row.fields, view.now_ms) else row.fields["expires"]
        _reschedule(view, Kind.NODE, response_id, ends_at, taken_until)
        return nothing
    fields = row.fields
    view.fewer(Index.CHILDREN, response_id, 1)
    view.delete(Kind.NODE, response_id)
    _reschedule(view, Kind.NODE, response_id, None, taken_until)
    if fields["session"] is not None:
        view.unfile(Index.MADE, fields["session"], made_id(fields["depth"], response_id))
    if fields["parent"] is not None:
        view.unfile(Index.CHILDREN, fields["parent"], response_id)
        view.file(Index.ENDS, "", f"{Kind.NODE}/{fields['parent']}")
    for item_id in nodes.item_ids(row):
        view.unfile(Index.ITEM, item_id, response_id)
    return answer(int(fields["size"]))


def limit_response(view: View, response_id: str, expires_ms: int) -> Finish[None]:
    """Sets the end of a response that has none."""
    row = view.need(Kind.NODE, response_id)
    if row is not None and row.fields["expires"] is None:
        view.set(Kind.NODE, response_id, expires=expires_ms)
        view.file(Index.ENDS, "", f"{Kind.NODE}/{response_id}", expires_ms)
    return nothing


def read_responses_end(view: View, session_id: str) -> Finish[int | None]:
    """The end of the responses of a conversation that was deleted; None where it has none."""
    session = view.need(Kind.SESSION, session_id)
    return answer(session.fields.get("responses_until") if session is not None else None)


def forget_responses_end(view: View, session_id: str, *, taken_until: int = 0) -> Finish[None]:
    """All responses of the conversation have their end."""
    view.need(Kind.SESSION, session_id)
    view.set(Kind.SESSION, session_id, responses_until=None)
    _reschedule(view, Kind.SESSION, session_id, None, taken_until)
    return nothing


def _ends_at(view: View, kind: Kind, row_id: str, row: Row) -> int | None:
    """When a row can go if nothing but time happens to it; None: not before something names it anew."""
    if kind is Kind.JOB:
        return jobs.forgettable_at(row.fields)
    ends_at: int | None = row.fields["until" if kind is Kind.LOG else "expires"]
    session = view.need(Kind.SESSION, row_id) if kind is Kind.CONVERSATION else None
    if session is not None and ends_at is not None and leases.is_leased(session, view.now_ms):
        ends_at = max(ends_at, session.fields["lease_until"])  # its holder keeps it until the turn has ended
    return ends_at


def _take_away(view: View, kind: Kind, row_id: str, row: Row) -> int | None:
    """Deletes a row and what belongs to it: the bytes of its content."""
    if kind is Kind.CONVERSATION:
        conversations.end(view, row_id, view.need(Kind.SESSION, row_id))
        return len(row.fields["metadata"].encode())
    view.delete(kind, row_id)
    if kind is Kind.LOG:
        view.delete_below(Kind.BATCH, f"{row_id}/")
        return int(row.fields["size"])
    if kind is Kind.KEY:
        return None
    view.unfile(Index.QUEUE, row.fields["queue"], row_id)
    if row.fields["holder"] != jobs.NOBODY:  # time ended its lease
        view.unfile(Index.HOLDER, jobs.held_key(row.fields["queue"], row.fields["holder"]), row_id)
    return len(row.body)


def _was_needed(response_id: str, row: Row, now_ms: int, family: Family) -> bool:
    heads = {session.fields.get("head") for _, session in family.sessions}
    return bool(family.children) or (response_id in heads and not nodes.is_expired(row.fields, now_ms))


def _is_needed_still(view: View, response_id: str, family: Family) -> bool:
    """Whether one of the family needs it now. The one that does is guarded: when it goes, it names the node anew."""
    if any(view.test(Kind.NODE, each.id, Condition.PRESENT) for each in family.children):
        return True
    named = [(Kind.SESSION, each) for each, row in family.sessions if row.fields.get("head") == response_id]
    return any(row is not None and row.fields.get("head") == response_id for row in view.need_all(*named))


def _reschedule(view: View, kind: Kind, row_id: str, ends_at: int | None, taken_until: int) -> None:
    """The candidate is looked at again at `ends_at`; with None not before something names it anew."""
    if ends_at is None:
        view.unfile(Index.ENDS, "", f"{kind}/{row_id}", taken_until)
    else:
        view.file(Index.ENDS, "", f"{kind}/{row_id}", ends_at)
