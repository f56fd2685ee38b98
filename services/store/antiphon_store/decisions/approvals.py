"""Approvals of calls: rows that a response writes when it asks, and that the turn with the answer takes.

open ──BeginTurn of R──> taken by R ──HoldApprovals──> held by R ──append that `sends` it──> sent
                           ├─ ReturnApprovals of R ──> open; also when it is held, but not when it is sent
                           ├─ BeginTurn of R again: nothing changes, however late it lands
                           ├─ another response: ApprovalAlreadyUsed
                           └─ nobody holds it in time: the next response may take it

A turn that is lost between its beginning and its job leaves nothing that could give the approval back, so it only takes
it for a while. Whoever runs the turn holds it before it sends the call, and is told if another response has it by then.
The row says whether the call may have been sent, because an event log may expire before its turn ends.

Row APPROVAL: `response` (that asks for it), `created`, `expires` (as that of the response), `used_by` (None: it is
open), `is_approved`, `taken_until` (None: it is held), `sent`. Its body is the content. The node of the response names
its approvals (`approvals`), so that they are deleted with it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from antiphon_core.errors import ApprovalAlreadyUsed, ApprovalNotFound
from antiphon_core.ports.checks import invalid
from antiphon_core.ports.store import Approval, ApprovalAnswer, ApprovalDraft, Fence, TurnRequest
from antiphon_store.decisions import leases
from antiphon_store.rows.model import Condition, Get, Index, Kind, Now, Payload, Ref, Row
from antiphon_store.rows.view import Finish, View, nothing

TAKEN_MS = 15_000  # the time from the beginning of a turn to its job


class UnknownHistory(Exception):
    """The responses that the turn continues must be read first: an older one than the last may ask for an approval."""


def ask(view: View, drafts: Sequence[ApprovalDraft], response_id: str, ttl_ms: int | None) -> None:
    """Writes the approvals that a response asks for."""
    for each in drafts:
        times = {"created": Now(), "expires": None if ttl_ms is None else Now(ttl_ms), "taken_until": None}
        fields = {"response": response_id, "used_by": None, "is_approved": None, **times}
        view.put(Kind.APPROVAL, each.id, fields, body=each.content)
        view.file(Index.ASKED, "", each.id)


def take(view: View, request: TurnRequest, last_id: str | None, history: Collection[str] = ()) -> None:
    """Takes the approvals of a turn that continues `last_id`; None: it continues nothing. `history`: the ids of all
    responses before it, if they are known. UnknownHistory, ApprovalNotFound, ApprovalAlreadyUsed, InvalidRequest."""
    rows = view.need_all(*((Kind.APPROVAL, each.id) for each in request.consumes))
    for each, row in zip(request.consumes, rows, strict=True):
        if row is None or not view.test(Kind.APPROVAL, each.id, Condition.AHEAD, "expires"):
            raise ApprovalNotFound.of(each.id)
        if last_id is not None and row.fields["response"] != last_id:
            _require_in(each, row, history)
        used_by = row.fields["used_by"]
        if used_by not in (None, request.response_id) and not _is_free_again(view, each.id, row):
            raise ApprovalAlreadyUsed.of(each.id, used_by=used_by)
        if used_by != request.response_id:  # a repeated BeginTurn may land after the approval is held
            _use(view, each, request.response_id)


def _require_in(answer: ApprovalAnswer, row: Row, history: Collection[str]) -> None:
    """InvalidRequest: the approval is asked for in another branch. UnknownHistory."""
    if not history:
        raise UnknownHistory
    if row.fields["response"] not in history:
        message = f"The approval request '{answer.id}' is not in the history of this request."
        raise invalid("input", message, code="approval_not_in_history")


def _is_free_again(view: View, approval_id: str, row: Row) -> bool:
    """Whether the response that took an approval did not hold it in time."""
    is_held = row.fields["taken_until"] is None
    return not is_held and not view.test(Kind.APPROVAL, approval_id, Condition.AHEAD, "taken_until")


def _use(view: View, answer: ApprovalAnswer, response_id: str | None) -> None:
    members = {"used_by": response_id, "is_approved": int(answer.is_approved), "taken_until": Now(TAKEN_MS)}
    view.set(Kind.APPROVAL, answer.id, **members)


def reads_of(approval_ids: Sequence[str]) -> list[Get]:
    """The reads of approvals."""
    return [Get(Ref(Kind.APPROVAL, each), Payload.ALL) for each in approval_ids]


def read_back(approval_ids: Sequence[str], rows: Sequence[Row]) -> tuple[Approval, ...]:
    """The approvals, from the answers to `reads_of`."""
    return tuple(map(_approval, approval_ids, rows))


def ids_of(request: TurnRequest) -> list[str]:
    """The ids of the approvals that a turn takes."""
    return [each.id for each in request.consumes]


def _approval(approval_id: str, row: Row) -> Approval:
    fields = row.fields
    return Approval(approval_id, fields["response"], fields["created"], bytes(row.body), bool(fields.get("sent")))


def begin_alone(view: View, request: TurnRequest) -> Finish[tuple[Approval, ...]]:
    """Takes the approvals of a turn without a history: its input has the requests. Errors as `take`."""
    take(view, request, None)
    return _answer_with(view, ids_of(request))


def _answer_with(view: View, approval_ids: Sequence[str]) -> Finish[tuple[Approval, ...]]:
    return view.answer_from(lambda *rows: read_back(approval_ids, rows), *reads_of(approval_ids))


def hold(view: View, approval_ids: Sequence[str], response_id: str) -> Finish[Sequence[Approval]]:
    """Keeps approvals for the response that took them, and reads them. ApprovalNotFound, ApprovalAlreadyUsed."""
    keep(view, approval_ids, response_id)
    return _answer_with(view, approval_ids)


def keep(view: View, approval_ids: Sequence[str], response_id: str) -> None:
    """Keeps approvals for the response that took them. ApprovalNotFound, ApprovalAlreadyUsed."""
    rows = view.need_all(*((Kind.APPROVAL, each) for each in approval_ids))
    for each, row in zip(approval_ids, rows, strict=True):
        if row is None:
            raise ApprovalNotFound.of(each)
        if row.fields["used_by"] != response_id:
            raise ApprovalAlreadyUsed.of(each, used_by=row.fields["used_by"] or "another response")
        if row.fields["taken_until"] is not None:
            view.set(Kind.APPROVAL, each, taken_until=None)
            view.unfile(Index.ASKED, "", each)  # not when it is taken: nobody may hold it, and then it is open again


def note_sent(view: View, approval_ids: Sequence[str], response_id: str) -> None:
    """Notes that the calls of approvals are sent. One that was deleted cannot be taken again, so it needs no note.
    ApprovalAlreadyUsed: the response does not have one of them any more."""
    for each in approval_ids:
        if view.test(Kind.APPROVAL, each, Condition.IS, "used_by", response_id):
            view.set(Kind.APPROVAL, each, sent=1, taken_until=None)
        elif (row := view.need(Kind.APPROVAL, each)) is not None:
            raise ApprovalAlreadyUsed.of(each, used_by=row.fields["used_by"] or "another response")


def give_back(view: View, approval_ids: Sequence[str], response_id: str, *, fence: Fence | None = None) -> Finish[None]:
    """Makes the approvals that this response has open again, unless their calls may have been sent. StaleFence."""
    if fence is not None:
        leases.require_fence(view, fence)
    rows = view.need_all(*((Kind.APPROVAL, each) for each in approval_ids))
    for each, row in zip(approval_ids, rows, strict=True):
        if row is not None and row.fields["used_by"] == response_id and not row.fields.get("sent"):
            view.set(Kind.APPROVAL, each, used_by=None, is_approved=None, taken_until=None)
            view.file(Index.ASKED, "", each, row.fields["created"])
    return nothing


def read_open(view: View, approval_ids: Sequence[str], now_ms: int) -> Finish[Sequence[Approval]]:
    """Reads those approvals of one tree that are open."""

    def collect(*rows: Row | None) -> Sequence[Approval]:
        found = zip(approval_ids, rows, strict=True)
        return [_approval(each, row) for each, row in found if row is not None and _is_open(row, now_ms)]

    return view.answer_from(collect, *reads_of(approval_ids))


def _is_open(row: Row, now_ms: int) -> bool:
    expires, taken_until = row.fields["expires"], row.fields["taken_until"]
    is_free = row.fields["used_by"] is None or (taken_until is not None and taken_until <= now_ms)
    return is_free and (expires is None or expires > now_ms)


def end_of(view: View, node: Row) -> None:
    """Deletes the approvals that a deleted response asked for."""
    for each in names_in(node):
        view.delete(Kind.APPROVAL, each)
        view.unfile(Index.ASKED, "", each)


def limit(view: View, node: Row, expires_ms: int) -> None:
    """Sets the expiry of the approvals of a response whose expiry is set."""
    for each in names_in(node):
        view.set(Kind.APPROVAL, each, expires=expires_ms)


def names_in(node: Row) -> Sequence[str]:
    """The ids of the approvals that a response asks for."""
    return node.fields.get("approvals") or ()
