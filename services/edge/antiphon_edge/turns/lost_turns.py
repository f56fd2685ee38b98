"""Ends turns whose edge was lost, and that nobody will continue.

A turn without an idempotency key that calls tools of servers has a job and an event log, because its calls may have had
effects. When its edge dies, no request can take it over. The next request that reads or continues the response ends it
as failed, with the calls that were open as unknown, so that they are on record.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from antiphon_core.errors import InternalError
from antiphon_core.ports.full_store import FullStore
from antiphon_edge.turns import event_logs, turn_approvals
from antiphon_edge.turns.durable_turns import Step, TurnJobs, is_unkeyed, next_step
from antiphon_edge.turns.turn_finisher import TurnFinisher, failure, final_of
from antiphon_edge.turns.turn_watch import Delivery

log = logging.getLogger(__name__)


class LostTurns:
    """Ends lost turns. One instance serves all of a process."""

    def __init__(self, store: FullStore, jobs: TurnJobs, finisher: TurnFinisher) -> None:
        self._store = store
        self._jobs = jobs
        self._finisher = finisher

    async def end_if_lost(self, tenant: str, response_id: str) -> bool:
        """Ends a turn that lost its edge. Returns whether the response has a record now."""
        step, job = await next_step(self._store, Delivery.KEYED, tenant, response_id)
        if step is not Step.TAKE_OVER or job is None or not is_unkeyed(job.queue):
            return False
        held = await self._jobs.claim_unkeyed(tenant, response_id)
        if held is None:
            return False
        state = await event_logs.read_state(self._store, tenant, response_id)
        if not state.next_sequence or state.is_over:
            if not state.is_over:
                await turn_approvals.give_back(self._store, held, is_under_fence=True)
            await self._jobs.release(held, is_over=True)
            return state.is_over
        log.warning("response %s lost its edge, and ends as failed", response_id)
        batch = await failure(state.fold, InternalError("The server that generated the response was lost."))
        await turn_approvals.give_back(self._store, held, is_under_fence=True)
        outside_session = replace(held, lease=None)  # another turn may have the session by now
        await self._finisher.commit(outside_session, batch, final_of(batch))
        return True
