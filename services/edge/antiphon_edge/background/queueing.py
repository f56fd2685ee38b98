"""Background responses on their way to a worker: what is queued, and where workers look for it.

A response's job lies with its tenant, beside its record and its log, so that every write of the job's holder can be
checked against its lease in one step. Workers do not know the tenants: for each job there is a *ticket*, a job of a
tenant of our own, that names it.
"""

from __future__ import annotations

from antiphon_core import events
from antiphon_core.jsons import Object, dumps
from antiphon_core.ports import jobs
from antiphon_core.ports.event_logs import EventAppend
from antiphon_core.ports.full_store import FullStore
from antiphon_core.ports.jobs import JobDraft, Jobs
from antiphon_edge.turns import job_payload
from antiphon_edge.turns.accepted_turn import AcceptedTurn

QUEUE = jobs.DISPATCH_QUEUE
DISPATCH_TENANT = jobs.DISPATCH_TENANT
JOB_ATTEMPTS = 5  # a worker that is stopped in mid-run uses one up, like one that dies
TICKET_ATTEMPTS = 100  # a ticket is taken up again for as long as its job is
WAITING_LEASE_MS = 600_000
"""How long a response that waits for a worker keeps its conversation to itself."""
OPENING_EVENTS = 2


async def enqueue(store: FullStore, accepted: AcceptedTurn) -> None:
    """Queues a response: first its job, then the ticket by which a worker finds it. Safe to repeat."""
    if accepted.lease is not None:
        await store.renew_session(accepted.tenant, accepted.lease.fence, ttl_ms=WAITING_LEASE_MS)
    draft = JobDraft(accepted.response_id, QUEUE, job_payload.payload_of(accepted), max_attempts=JOB_ATTEMPTS)
    await store.enqueue_job(accepted.tenant, draft)
    await hand_in(store, accepted.tenant, accepted.response_id)


async def hand_in(store: Jobs, tenant: str, response_id: str) -> None:
    """Adds the ticket of a job. The same again changes nothing."""
    ticket = dumps({"tenant": tenant, "response_id": response_id})
    await store.enqueue_job(DISPATCH_TENANT, JobDraft(response_id, QUEUE, ticket, max_attempts=TICKET_ATTEMPTS))


def opening(response_id: str, queued: Object) -> EventAppend:
    """The first events of a background response; response.in_progress is sent by the first worker."""
    frames = [
        events.encode({"type": event_type, "sequence_number": number, "response": queued})
        for number, event_type in enumerate((events.CREATED, events.QUEUED))
    ]
    return EventAppend(response_id, 0, len(frames), b"".join(frames))
