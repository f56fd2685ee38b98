"""The beginning of a turn: takes the lease and reads the history in one step. `records.put` ends a turn."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from antiphon_core import limits
from antiphon_core.errors import ChainTooLong, PreviousResponseNotFound, PreviousResponseNotReady
from antiphon_core.jsons import dumps, loads
from antiphon_core.ports.store import UNFINISHED, History, Status, TurnRequest, TurnStart
from antiphon_store.decisions import approvals, leases, nodes, records
from antiphon_store.rows.model import Chain, ChainRows, Condition, Get, Kind, Payload, Ref, Row
from antiphon_store.rows.view import Finish, View

NO_HISTORY = ("",)
"""The history of a session without a head, in place of ids."""
_UNFINISHED = sorted(status.value for status in UNFINISHED)


class EditedContext(Exception):
    """The context exceeds its limit if removed items of the conversation are counted, and may fit without them."""


def begin_behind(
    view: View, response_id: str, request: TurnRequest, *, history: Collection[str] = ()
) -> Finish[TurnStart]:
    """Reads the history of a turn that continues a response, and takes its approvals. `history`: the ids of the
    responses in it, if they are known.

    Raises PreviousResponseNotFound, PreviousResponseNotReady, ChainTooLong, or as `approvals.take`."""
    if not records.is_readable(view, response_id):
        raise PreviousResponseNotFound.of(response_id)
    require_ended(view, response_id)
    if view.too_long:
        raise too_long(response_id, view.too_long, request.max_depth, request.max_bytes)
    approvals.take(view, request, response_id, history)

    def start(found: ChainRows, *rows: Row) -> TurnStart:
        return TurnStart(_history(found, request), approvals=approvals.read_back(approvals.ids_of(request), rows))

    chain = Chain(response_id, _payload(request), request.max_depth, request.max_bytes)
    return view.answer_from(start, chain, *approvals.reads_of(approvals.ids_of(request)))


def read_history(view: View, start: str, request: TurnRequest, *, starts_at_head: bool) -> Finish[Sequence[str]]:
    """Reads the ids of the responses in a history, which ends with `start`, or with the head of that session.
    ChainTooLong."""
    if view.too_long:
        raise too_long(start, view.too_long, request.max_depth, request.max_bytes)
    chain = Chain(start, Payload.NONE, request.max_depth, request.max_bytes, starts_at_head=starts_at_head)
    return view.answer_from(lambda found: found.ids, chain)


def _payload(request: TurnRequest) -> Payload:
    return Payload.LINEAGE if request.wants_lineage else Payload.ITEMS


def require_ended(view: View, response_id: str, *, field: str = "previous_response_id") -> None:
    """Raises PreviousResponseNotReady if the response is queued or in progress."""
    if not view.test(Kind.NODE, response_id, Condition.NOT_IN, "status", _UNFINISHED):
        row = view.need(Kind.NODE, response_id)
        status = Status(row.fields["status"]) if row is not None else Status.QUEUED
        raise PreviousResponseNotReady.of(response_id, status=status.value, field=field)


def begin_in_session(
    view: View,
    session_id: str,
    request: TurnRequest,
    *,
    was_measured: bool = False,
    history: Sequence[str] = (),
) -> Finish[tuple[TurnStart, Sequence[str]]]:
    """Takes the lease of a session, and reads its history. Returns the start of the turn and the ids of the removed
    items that its history still has. `was_measured`: the context is known to fit without them.

    Raises SessionLocked or ChainTooLong; or EditedContext, after which the caller measures the context and tries
    again."""
    if request.consumes:
        _take_in(view, session_id, request, history)
    leases.take(view, session_id, holder=request.holder, ttl_ms=request.lease_ttl_ms)
    if view.too_long:
        removed = removed_from(view.need(Kind.SESSION, session_id))
        if view.too_long == "bytes" and removed and not was_measured:
            raise EditedContext
        raise too_long(head_of(view, session_id), view.too_long, request.max_depth, request.max_bytes)

    def start(session: Row, chain: ChainRows, *rows: Row) -> tuple[TurnStart, Sequence[str]]:
        lease, taken = leases.lease_of(session_id, session), approvals.read_back(approvals.ids_of(request), rows)
        return TurnStart(_history(chain, request), lease, approvals=taken), removed_from(session)

    max_bytes = limits.CHAIN_BYTES_MAX if was_measured else request.max_bytes
    reads = context(session_id, _payload(request), request.max_depth, max_bytes)
    return view.answer_from(start, *reads, *approvals.reads_of(approvals.ids_of(request)))


def _take_in(view: View, session_id: str, request: TurnRequest, history: Sequence[str]) -> None:
    """Takes the approvals of a turn in a session. Raises as `approvals.take`; UnknownHistory also if the session went
    on after `history` was read."""
    session = view.need(Kind.SESSION, session_id)
    head_id = (session.fields.get("head") if session is not None else None) or NO_HISTORY[0]
    is_current = bool(history) and history[-1] == head_id
    approvals.take(view, request, head_id, history if is_current else ())


def context(session_id: str, payload: Payload, max_depth: int, max_bytes: int) -> tuple[Get, Chain]:
    """The reads of a session and of the chain that ends with its head."""
    return Get(Ref(Kind.SESSION, session_id)), Chain(session_id, payload, max_depth, max_bytes, starts_at_head=True)


def removed_from(session: Row | None) -> Sequence[str]:
    """The ids of the items that were removed from a session's context."""
    return (session.fields.get("removed") if session is not None else None) or ()


def _history(chain: ChainRows, request: TurnRequest) -> History:
    if not chain.ids:
        return History()
    lineages = tuple(chain.bodies) if request.wants_lineage and any(chain.bodies) else ()
    return History(nodes.joined_items(chain), len(chain.ids), chain.ids[-1], lineages)


def without(items: bytes, removed: Sequence[str]) -> bytes:
    """A JSON array of items without the removed ones; the unchanged bytes if none was removed."""
    if not removed:
        return items
    hidden = frozenset(removed)  # a conversation may have thousands of each
    return dumps([item for item in loads(items) if item.get("id") not in hidden])


def head_of(view: View, session_id: str) -> str:
    """The id of the last response of a session's history, for an error; the session's own if it has none."""
    session = view.need(Kind.SESSION, session_id)
    return str((session.fields.get("head") if session is not None else None) or session_id)


def too_long(begins_from: str, bound: str, max_depth: int, max_bytes: int) -> ChainTooLong:
    limit = f"{max_depth} responses" if bound == "depth" else f"{max_bytes} bytes"
    return ChainTooLong.of(begins_from, limit=limit)
