"""The approvals that a turn took at its beginning: held while it runs, and given back if it sent no call.

The append of the intent of a call marks its approval as sent. The store gives back only approvals without the mark, so
no caller has to know what became of the event log.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Sequence
from functools import partial

from antiphon_core import audit, offload
from antiphon_core.audit import Action
from antiphon_core.errors import AntiphonError
from antiphon_core.ids import is_approval_id, item_tag, tree_tag
from antiphon_core.jsons import loads
from antiphon_core.ports.approvals import Approvals
from antiphon_core.ports.store import Approval, ApprovalAnswer, Fence, Record
from antiphon_core.request.server_items import RESPONSE
from antiphon_core.telemetry import correlation
from antiphon_edge.tools import approvals
from antiphon_edge.turns.accepted_turn import AcceptedTurn

log = logging.getLogger(__name__)


async def hold(store: Approvals, accepted: AcceptedTurn) -> Sequence[Approval]:
    """Holds the approvals of a turn, and returns those of calls that may run. ApprovalAlreadyUsed: the turn took too
    long to begin, and another response has them."""
    if not accepted.consumes:
        return ()
    ids = [each.id for each in accepted.consumes]
    held = await store.hold_approvals(accepted.tenant, ids, accepted.response_id)
    approved = {each.id for each in accepted.consumes if each.is_approved}
    return [each for each in held if each.id in approved]


def note_answers(accepted: AcceptedTurn) -> None:
    """Writes an audit line for each answer that a turn took: with its caller, the approval and the response that uses
    it."""
    if not accepted.consumes or not audit.is_on():
        return
    caller, peer = audit.caller_now.get()
    for each in accepted.consumes:
        audit.note(
            Action(
                service="edge",
                caller=caller,
                peer=peer,
                tenant=accepted.tenant,
                action="approve" if each.is_approved else "deny",
                ids=[each.id, accepted.response_id],
                result="taken",
                request_id=correlation.current().request_id,
            )
        )


async def give_back(store: Approvals, accepted: AcceptedTurn, *, is_under_fence: bool = False) -> None:
    """Gives back the approvals of a turn that ends without an answer. `is_under_fence`: only while the turn has its
    job."""
    if not accepted.consumes:
        return
    ids = [each.id for each in accepted.consumes]

    async def give(fence: Fence | None) -> None:
        await store.return_approvals(accepted.tenant, ids, accepted.response_id, fence=fence)

    await _attempt(accepted.under_fence(give) if is_under_fence else give(None), accepted.response_id)


async def give_back_of(store: Approvals, tenant: str, record: Record) -> None:
    """Gives back the approvals that the input of a response answers, as `give_back` does. Those that other responses
    have used stay used."""
    if RESPONSE.encode() not in record.input_items:
        return
    read = partial(_answers_in, record.input_items)
    answers = await offload.run(read, size_bytes=len(record.input_items))
    ids = [each.id for each in answers if is_approval_id(each.id) and item_tag(each.id) == tree_tag(record.id)]
    if ids:
        await give_back_ids(store, tenant, ids, record.id)


def _answers_in(items: bytes) -> Sequence[ApprovalAnswer]:
    return approvals.answers_in(loads(items))


async def give_back_ids(store: Approvals, tenant: str, ids: Sequence[str], response_id: str) -> None:
    """Gives approvals back."""
    await _attempt(store.return_approvals(tenant, ids, response_id), response_id)


async def _attempt(giving: Awaitable[None], response_id: str) -> None:
    """Waits until approvals are given back. If that fails they stay used, which nobody can abuse."""
    try:
        await giving
    except AntiphonError as error:
        log.warning("the approvals of %s could not be given back: %s", response_id, error.message)
