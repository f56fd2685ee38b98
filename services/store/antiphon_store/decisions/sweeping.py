"""Cleanup of rows that nothing needs: decisions about one candidate at a time. Cleanup never changes an answer.

The index ENDS has candidates by the time of their next check. A candidate that is still needed is removed from it,
because the operation that makes it unneeded files it again: a node when its last child goes or a session's head moves
on, another row when its expiry is extended. A decision returns the bytes that it freed, or None if the candidate stays
or does not count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from antiphon_store.decisions import approvals, conversations, jobs, leases, nodes, records
from antiphon_store.rows.model import Condition, Entry, Index, Kind, Now, Row, made_id
from antiphon_store.rows.view import Finish, View, answer, nothing


@dataclass(frozen=True, slots=True)
class Family:
    """The rows that may still need a node, read in this order: its `v` if it was unreadable, with the ids of its items,
    the sessions of its tree, its children."""

    dead_version: int | None
    item_ids: Sequence[str]
    children: Sequence[Entry]
    sessions: Sequence[tuple[str, Row]]


def reclaim(view: View, kind: Kind, row_id: str, *, taken_until: int = 0) -> Finish[int | None]:
    """Deletes an expired row: an event log, a job, a conversation or a key."""
    row = view.need(kind, row_id)
    ends_at = _ends_at(view, kind, row_id, row) if row is not None else None
    if row is None or ends_at is None or ends_at > view.now_ms:
        _reschedule(view, kind, row_id, ends_at, taken_until)
        return nothing
    _reschedule(view, kind, row_id, None, taken_until)
    return answer(_take_away(view, kind, row_id, row))


def reclaim_node(view: View, response_id: str, family: Family, *, taken_until: int = 0) -> Finish[int | None]:
    """Deletes a node that neither is kept nor has children, and makes its parent a candidate. An unreadable node
    becomes the head of a further session only by a fork of a session whose head it is, and `family` read the sessions
    after the node; a guard detects new children. A node that has changed or got a child since stays a candidate."""
    row, lineage = view.need_all((Kind.NODE, response_id), (Kind.LINEAGE, response_id))
    if row is None or nodes.is_readable(row, view.now_ms):
        _reschedule(view, Kind.NODE, response_id, None if row is None else row.fields["expires"], taken_until)
        return nothing
    if row.fields["v"] != family.dead_version or view.is_crowded:
        return nothing
    if _was_needed(response_id, row, view.now_ms, family):
        ends_at: int | None = view.now_ms
        if _is_needed_still(view, response_id, family):  # by a child, or as a head until it expires
            ends_at = None if nodes.is_expired(row.fields, view.now_ms) else row.fields["expires"]
        _reschedule(view, Kind.NODE, response_id, ends_at, taken_until)
        return nothing
    view.fewer(Index.CHILDREN, response_id, 1)
    view.delete(Kind.NODE, response_id)
    records.drop_lineage(view, response_id, lineage)
    approvals.end_of(view, row)
    _reschedule(view, Kind.NODE, response_id, None, taken_until)
    _leave_family(view, response_id, row.fields, family)
    return answer(int(row.fields["size"]))


def _leave_family(view: View, response_id: str, fields: Mapping[str, Any], family: Family) -> None:
    """Removes the entries of a deleted node. Its parent, and the sessions whose head it was, become candidates."""
    if fields["session"] is not None:
        view.unfile(Index.MADE, fields["session"], made_id(fields["depth"], response_id))
    if fields["parent"] is not None:
        view.unfile(Index.CHILDREN, fields["parent"], response_id)
        view.file(Index.ENDS, "", f"{Kind.NODE}/{fields['parent']}")
    for session_id, session in family.sessions:
        if session.fields.get("head") == response_id:
            leases.check_later(view, session_id)
    for item_id in family.item_ids:
        view.unfile(nodes.item_index(item_id, response_id), item_id, response_id)


def limit_response(view: View, response_id: str, expires_ms: int) -> Finish[None]:
    """Sets the expiry of a response that has none."""
    row = view.need(Kind.NODE, response_id)
    if row is not None and row.fields["expires"] is None:
        view.set(Kind.NODE, response_id, expires=expires_ms)
        if not row.fields["deleted"]:  # otherwise its approvals are gone, and `set` would make rows of nothing
            approvals.limit(view, row, expires_ms)
        view.file(Index.ENDS, "", f"{Kind.NODE}/{response_id}", expires_ms)
    return nothing


def look_later(view: View, *, entry_id: str, after_ms: int) -> Finish[None]:
    """Moves the next check of a candidate. Does not need its row."""
    view.file(Index.ENDS, "", entry_id, Now(after_ms))
    return nothing


class ResponsesEnd(NamedTuple):
    """The expiry for the responses of a deleted conversation that were made until it was deleted."""

    expires_ms: int
    made_until_ms: int


def read_responses_end(view: View, session_id: str) -> Finish[ResponsesEnd | None]:
    """Reads the expiry for the responses of a deleted conversation; None if there is none to write."""
    session = view.need(Kind.SESSION, session_id)
    fields = session.fields if session is not None else {}
    until = fields.get("responses_until")
    return answer(ResponsesEnd(until, fields.get("ended") or until) if until is not None else None)


def forget_responses_end(view: View, session_id: str) -> Finish[None]:
    """Clears the expiry that `read_responses_end` reads, once all responses have it."""
    if view.need(Kind.SESSION, session_id) is not None:
        view.set(Kind.SESSION, session_id, responses_until=None)
    return nothing


def reclaim_session(view: View, session_id: str, *, taken_until: int = 0) -> Finish[None]:
    """Deletes a session that has neither a head nor a conversation and can be forgotten. The end of its head or of its
    conversation makes it a candidate again."""
    session, conversation = view.need_all((Kind.SESSION, session_id), (Kind.CONVERSATION, session_id))
    head_id = session.fields.get("head") if session is not None else None
    is_needed = conversation is not None or (head_id is not None and view.need(Kind.NODE, head_id) is not None)
    ends_at = leases.forgettable_at(session) if session is not None and not is_needed else None
    is_pending = session is not None and session.fields.get("responses_until") is not None  # deleted again meanwhile
    if ends_at is not None and ends_at <= view.now_ms and not is_pending:
        view.delete(Kind.SESSION, session_id)
        ends_at = None
    _reschedule(view, Kind.SESSION, session_id, ends_at, taken_until)
    return nothing


def _ends_at(view: View, kind: Kind, row_id: str, row: Row) -> int | None:
    """When a row can be deleted if no operation changes it before; None: not before an operation files it again."""
    if kind is Kind.JOB:
        return jobs.forgettable_at(row.fields)
    ends_at: int | None = row.fields["until" if kind is Kind.LOG else "expires"]
    session = view.need(Kind.SESSION, row_id) if kind is Kind.CONVERSATION else None
    if session is not None and ends_at is not None and leases.is_leased(session, view.now_ms):
        ends_at = max(ends_at, session.fields["lease_until"])  # a running turn keeps it
    return ends_at


def _take_away(view: View, kind: Kind, row_id: str, row: Row) -> int | None:
    """Deletes a row with its dependent rows, and returns the bytes of its content; None for a key."""
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
    if row.fields["holder"] != jobs.NOBODY:  # its lease has expired
        view.unfile(Index.HOLDER, jobs.held_key(row.fields["queue"], row.fields["holder"]), row_id)
    return len(row.body)


def _was_needed(response_id: str, row: Row, now_ms: int, family: Family) -> bool:
    heads = {session.fields.get("head") for _, session in family.sessions}
    return bool(family.children) or (response_id in heads and not nodes.is_expired(row.fields, now_ms))


def _is_needed_still(view: View, response_id: str, family: Family) -> bool:
    """Whether one of the family needs the node now. A guard on that row holds until the commit, and its removal later
    files the node again."""
    if any(view.test(Kind.NODE, each.id, Condition.PRESENT) for each in family.children):
        return True
    named = [(Kind.SESSION, each) for each, row in family.sessions if row.fields.get("head") == response_id]
    return any(row is not None and row.fields.get("head") == response_id for row in view.need_all(*named))


def _reschedule(view: View, kind: Kind, row_id: str, ends_at: int | None, taken_until: int) -> None:
    """Files the next check of a candidate at `ends_at`; None: removes it until an operation files it again."""
    if ends_at is None:
        view.unfile(Index.ENDS, "", f"{kind}/{row_id}", taken_until)
    else:
        view.file(Index.ENDS, "", f"{kind}/{row_id}", ends_at)
