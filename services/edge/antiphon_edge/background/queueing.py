"""Background responses on their way to a worker: what is queued, and where workers look for it.

A response's job lies with its tenant, beside its record and its log, so that every write of the job's holder can be
checked against its lease in one step. Workers do not know the tenants: in DISPATCH_TENANT the store gives them a job of
one tenant after the other.
"""

from __future__ import annotations

from antiphon_core import events
from antiphon_core.jsons import Object
from antiphon_core.ports import jobs
from antiphon_core.ports.event_logs import EventAppend
from antiphon_core.ports.full_store import FullStore
from antiphon_core.ports.jobs import JobDraft
from antiphon_edge.turns import job_payload
from antiphon_edge.turns.accepted_turn import AcceptedTurn

QUEUE = jobs.DISPATCH_QUEUE
DISPATCH_TENANT = jobs.DISPATCH_TENANT
JOB_ATTEMPTS = 5  # a worker that is stopped in mid-run uses one up, like one that dies
WAITING_LEASE_MS = 600_000
"""How long a response that waits for a worker keeps its conversation to itself."""
OPENING_EVENTS = 2


async def enqueue(store: FullStore, accepted: AcceptedTurn) -> None:
    """Queues a response. Safe to repeat."""
    if accepted.lease is not None:
        await store.renew_session(accepted.tenant, accepted.lease.fence, ttl_ms=WAITING_LEASE_MS)
    payload = job_payload.payload_of(accepted)
    draft = JobDraft(accepted.response_id, QUEUE, payload, max_attempts=JOB_ATTEMPTS)
    await store.enqueue_job(accepted.tenant, draft)


def opening(response_id: str, queued: Object) -> EventAppend:
    """The first events of a background response; response.in_progress is sent by the first worker."""
    frames = [
        events.encode({"type": event_type, "sequence_number": number, "response": queued})
        for number, event_type in enumerate((events.CREATED, events.QUEUED))
    ]
    return EventAppend(response_id, 0, len(frames), b"".join(frames))
