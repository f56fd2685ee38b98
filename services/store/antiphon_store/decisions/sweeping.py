"""Cleanup of rows that nothing needs: decisions about one candidate at a time. Cleanup never changes an answer.

ENDS names candidates by when they are worth looking at. One that is still needed is dropped from it, because what makes
it free later names it again: a node when its last child goes or a session's head moves on, anything else when its time
is extended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from antiphon_store.decisions import conversations, jobs, nodes
from antiphon_store.rows.decision import Finish
from antiphon_store.rows.model import Condition, Entry, Index, Kind, Row, made_id
from antiphon_store.rows.view import View


@dataclass(frozen=True, slots=True)
class Reclaimed:
    """The bytes that a decision freed; `parent` is the next candidate."""

    size_bytes: int
    parent: str | None = None


@dataclass(frozen=True, slots=True)
class Family:
    """The rows that may still need a node, read in this order: its `v` if it could not be read, the sessions of its
    tree, its children."""

    dead_version: int | None
    children: Sequence[Entry]
    sessions: Sequence[tuple[str, Row]]


def reclaim_node(view: View, response_id: str, family: Family, *, taken_until: int = 0) -> Finish[Reclaimed | None]:
    """Takes a node away that neither is kept nor has children. Once a node cannot be read, only a session that has it
    as its head makes it another's head, so what `family` saw of sessions afterwards still holds; of children a guard
    tells. A node that changed meanwhile, or got a child, stays: it is looked at again."""
    row = view.need(Kind.NODE, response_id)
    if row is None or nodes.is_readable(row, view.now_ms):
        _reschedule(view, Kind.NODE, response_id, None if row is None else row.fields["expires"], taken_until)
        return _nothing
    if row.fields["v"] != family.dead_version or view.is_crowded:
        return _nothing
    if _was_needed(response_id, row, view.now_ms, family):
        is_needed = _is_needed_still(view, response_id, family)
        due_at = _needed_until(row, view.now_ms) if is_needed else view.now_ms
        _reschedule(view, Kind.NODE, response_id, due_at, taken_until)
        return _nothing
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
    reclaimed = Reclaimed(fields["size"], fields["parent"])
    return lambda _answers: reclaimed


def reclaim_log(view: View, log_id: str, *, taken_until: int = 0) -> Finish[Reclaimed | None]:
    row = view.need(Kind.LOG, log_id)
    if row is None or row.fields["until"] > view.now_ms:
        _reschedule(view, Kind.LOG, log_id, None if row is None else row.fields["until"], taken_until)
        return _nothing
    view.delete(Kind.LOG, log_id)
    view.delete_below(Kind.BATCH, f"{log_id}/")
    _reschedule(view, Kind.LOG, log_id, None, taken_until)
    size_bytes = row.fields["size"]
    return lambda _answers: Reclaimed(size_bytes)


def reclaim_job(view: View, job_id: str, *, taken_until: int = 0) -> Finish[Reclaimed | None]:
    row = view.need(Kind.JOB, job_id)
    ends_at = jobs.forgettable_at(row.fields) if row is not None else None
    if row is None or ends_at is None or ends_at > view.now_ms:
        _reschedule(view, Kind.JOB, job_id, ends_at, taken_until)
        return _nothing
    view.delete(Kind.JOB, job_id)
    view.unfile(Index.QUEUE, row.fields["queue"], job_id)
    if row.fields["holder"] != jobs.NOBODY:  # time ended its lease
        view.unfile(Index.HOLDER, jobs.held_key(row.fields["queue"], row.fields["holder"]), job_id)
    _reschedule(view, Kind.JOB, job_id, None, taken_until)
    size_bytes = len(row.body)
    return lambda _answers: Reclaimed(size_bytes)


def reclaim_conversation(view: View, conversation_id: str, *, taken_until: int = 0) -> Finish[Reclaimed | None]:
    """Ends a conversation whose time is over, and that nobody holds the lease of."""
    size_bytes = conversations.expire(view, conversation_id)
    if size_bytes is None:
        row, session = view.need_all((Kind.CONVERSATION, conversation_id), (Kind.SESSION, conversation_id))
        ends_at = row.fields["expires"] if row is not None else None
        if session is not None and ends_at is not None:
            ends_at = max(ends_at, session.fields["lease_until"])
        _reschedule(view, Kind.CONVERSATION, conversation_id, ends_at, taken_until)
        return _nothing
    return lambda _answers: Reclaimed(size_bytes)


def reclaim_key(view: View, key: str, *, taken_until: int = 0) -> Finish[Reclaimed | None]:
    row = view.need(Kind.KEY, key)
    if row is not None and row.fields["expires"] <= view.now_ms:
        view.delete(Kind.KEY, key)
        _reschedule(view, Kind.KEY, key, None, taken_until)
    else:
        _reschedule(view, Kind.KEY, key, None if row is None else row.fields["expires"], taken_until)
    return _nothing


def limit_response(view: View, response_id: str, expires_ms: int) -> Finish[None]:
    """Sets the end of a response that has none."""
    row = view.need(Kind.NODE, response_id)
    if row is not None and row.fields["expires"] is None:
        view.set(Kind.NODE, response_id, expires=expires_ms)
        view.file(Index.ENDS, "", f"{Kind.NODE}/{response_id}", expires_ms)
    return lambda _answers: None


def read_responses_end(view: View, session_id: str) -> Finish[int | None]:
    """The end of the responses of a conversation that was deleted; None where it has none."""
    session = view.need(Kind.SESSION, session_id)
    responses_until: int | None = session.fields.get("responses_until") if session is not None else None
    return lambda _answers: responses_until


def forget_responses_end(view: View, session_id: str, *, taken_until: int = 0) -> Finish[None]:
    """All responses of the conversation have their end."""
    view.need(Kind.SESSION, session_id)
    view.set(Kind.SESSION, session_id, responses_until=None)
    _reschedule(view, Kind.SESSION, session_id, None, taken_until)
    return lambda _answers: None


def show_again(view: View, kind: Kind, row_id: str, family: Family | None, *, taken_until: int = 0) -> Finish[bool]:
    """Puts a candidate back that was taken and not looked at: whether it can go now."""
    row = view.need(kind, row_id)
    due_at = _due_at(view, kind, row_id, row, family) if row is not None else None
    can_go = due_at is not None and due_at <= view.now_ms
    _reschedule(view, kind, row_id, due_at, taken_until)
    return lambda _answers: can_go


def _due_at(view: View, kind: Kind, row_id: str, row: Row, family: Family | None) -> int | None:
    """When a candidate can go if nothing but time happens to it; None: not before something names it anew."""
    if kind is Kind.NODE and family is not None and not nodes.is_readable(row, view.now_ms):
        is_needed = _was_needed(row_id, row, view.now_ms, family) and _is_needed_still(view, row_id, family)
        return _needed_until(row, view.now_ms) if is_needed else view.now_ms
    if kind is Kind.JOB:
        return jobs.forgettable_at(row.fields)
    if kind is Kind.SESSION:
        return view.now_ms if row.fields.get("responses_until") is not None else None
    ends_at: int | None = row.fields.get("until", row.fields.get("expires"))
    return ends_at


def _needed_until(row: Row, now_ms: int) -> int | None:
    """When time may end the need of a node; None: something else does, and names it anew then."""
    ends_at: int | None = row.fields["expires"]
    return ends_at if ends_at is not None and ends_at > now_ms else None


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


def _nothing(_answers: Any) -> None:
    """The candidate stays."""
