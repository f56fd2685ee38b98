"""Background responses on their way to a worker: what is queued, and where workers look for it.

A response's job lies with its tenant, beside its record and its log, so that every write of the job's holder can be
checked against its lease in one step. Workers do not know the tenants: for each job there is a *ticket*, a job of a
tenant of our own, that names it.
"""

from __future__ import annotations

from functools import partial

from antiphon_core import events, offload
from antiphon_core.jsons import Object, dumps, loads, with_member
from antiphon_core.ports.event_logs import EventAppend
from antiphon_core.ports.full_store import FullStore
from antiphon_core.ports.jobs import Job, JobDraft, Jobs
from antiphon_core.ports.store import UNFINISHED, Fence, Lease, Precondition
from antiphon_core.ports.translator import Turn
from antiphon_edge.turns.accepted_turn import AcceptedTurn

QUEUE = "responses"
DISPATCH_TENANT = "antiphon.dispatch"
JOB_ATTEMPTS = 5  # a worker that is stopped in mid-run uses one up, like one that dies
TICKET_ATTEMPTS = 100  # a ticket is taken up again for as long as its job is
WAITING_LEASE_MS = 600_000
"""How long a response that waits for a worker keeps its conversation to itself."""
OPENING_EVENTS = 2
_RAW = ("request", "history", "input")


async def enqueue(store: FullStore, accepted: AcceptedTurn) -> None:
    """Queues a response: first its job, then the ticket by which a worker finds it. Safe to repeat."""
    if accepted.lease is not None:
        await store.renew_session(accepted.tenant, accepted.lease.fence, ttl_ms=WAITING_LEASE_MS)
    draft = JobDraft(accepted.response_id, QUEUE, payload_of(accepted), max_attempts=JOB_ATTEMPTS)
    await store.enqueue_job(accepted.tenant, draft)
    await hand_in(store, accepted.tenant, accepted.response_id)


async def hand_in(jobs: Jobs, tenant: str, response_id: str) -> None:
    """Adds the ticket of a job. The same again changes nothing."""
    ticket = dumps({"tenant": tenant, "response_id": response_id})
    await jobs.enqueue_job(DISPATCH_TENANT, JobDraft(response_id, QUEUE, ticket, max_attempts=TICKET_ATTEMPTS))


def opening(response_id: str, queued: Object) -> EventAppend:
    """The first events of a background response; response.in_progress is sent by the first worker."""
    frames = [
        events.encode({"type": event_type, "sequence_number": number, "response": queued})
        for number, event_type in enumerate((events.CREATED, events.QUEUED))
    ]
    return EventAppend(response_id, 0, len(frames), b"".join(frames))


def payload_of(accepted: AcceptedTurn) -> bytes:
    """A turn as its job holds it: what was accepted, without parsing any of it again."""
    facts: Object = {
        "created_at": accepted.turn.created_at,
        "parent_id": accepted.parent_id,
        "session_id": accepted.lease.fence.session_id if accepted.lease is not None else None,
    }
    payload = dumps(facts)
    for name in _RAW:
        payload = with_member(payload, name, getattr(accepted.turn, name))
    return payload


async def accepted_of(tenant: str, job: Job) -> AcceptedTurn:
    """The turn that a job holds, without the lease of its session. Its record exists, unfinished, and is written under
    the job's lease."""
    facts, turn = await offload.run(partial(_turn_of, job), size_bytes=len(job.payload))
    session_id = facts["session_id"]
    return AcceptedTurn(
        tenant,
        turn,
        parent_id=facts["parent_id"],
        lease=Lease(Fence(session_id, 0), job.id, 0) if session_id is not None else None,
        logged=True,
        precondition=Precondition(statuses=UNFINISHED, fence=job.fence),
    )


def _turn_of(job: Job) -> tuple[Object, Turn]:
    """What a payload says of a turn, and the turn."""
    facts: Object = loads(job.payload)
    return facts, Turn(job.id, facts["created_at"], **{name: dumps(facts[name]) for name in _RAW})
