"""The approvals that a turn took at its beginning: held while it runs, and given back if it sent no call.

A turn that ends before the intent of its first calls is durable has sent none of them. So its approvals can be answered
again. Behind the intent they are used, whatever became of the calls.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from antiphon_core import audit
from antiphon_core.audit import Action
from antiphon_core.errors import AntiphonError
from antiphon_core.ids import is_approval_id, item_tag, tree_tag
from antiphon_core.jsons import loads
from antiphon_core.ports.approvals import Approvals
from antiphon_core.ports.event_logs import Step, StepKind
from antiphon_core.ports.store import Approval, Record
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


async def give_back(store: Approvals, accepted: AcceptedTurn, steps: Sequence[Step] = ()) -> None:
    """Gives back the approvals of a turn that ends without an answer, unless `steps` say that calls may have been
    sent."""
    if accepted.consumes and not _has_sent(steps):
        await give_back_ids(store, accepted.tenant, [each.id for each in accepted.consumes], accepted.response_id)


async def give_back_of(store: Approvals, tenant: str, record: Record, steps: Sequence[Step]) -> None:
    """Gives back the approvals that the input of a response answers, as `give_back` does. Those that other responses
    have used stay used."""
    if approvals.RESPONSE.encode() not in record.input_items or _has_sent(steps):
        return
    answers = approvals.answers_in(loads(record.input_items))
    ids = [each.id for each in answers if is_approval_id(each.id) and item_tag(each.id) == tree_tag(record.id)]
    if ids:
        await give_back_ids(store, tenant, ids, record.id)


def _has_sent(steps: Sequence[Step]) -> bool:
    """Whether calls may have been sent."""
    return any(step.kind is StepKind.INTENT for step in steps)


async def give_back_ids(store: Approvals, tenant: str, ids: Sequence[str], response_id: str) -> None:
    """Gives approvals back. If that fails they stay used, which nobody can abuse."""
    try:
        await store.return_approvals(tenant, ids, response_id)
    except AntiphonError as error:
        log.warning("the approvals of %s could not be given back: %s", response_id, error.message)
