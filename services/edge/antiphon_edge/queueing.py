"""Background responses on their way to a worker: what is queued, and where workers look for it.

A response's job lies with its tenant, beside its record and its log, so that every write of the job's holder can be
checked against its lease in one step. Workers do not know the tenants: for each job there is a *ticket*, a job of a
tenant of our own, that names it.
"""

from __future__ import annotations

from antiphon_core.jsons import Object, dumps, loads, with_member
from antiphon_core.ports.jobs import Job, JobDraft, Jobs
from antiphon_core.ports.store import Fence, Lease, Precondition, Status
from antiphon_core.ports.translator import Turn
from antiphon_edge.begun import Begun

QUEUE = "responses"
DISPATCH_TENANT = "antiphon.dispatch"
TICKET_ATTEMPTS = 100  # a ticket is taken up again for as long as its job is
_RAW = ("request", "history", "input")
UNFINISHED = frozenset({Status.QUEUED, Status.IN_PROGRESS})


async def enqueue(jobs: Jobs, begun: Begun) -> None:
    """Queues a response: first its job, then the ticket by which a worker finds it. Safe to repeat."""
    await jobs.enqueue_job(begun.tenant, JobDraft(begun.response_id, QUEUE, payload_of(begun)))
    ticket = dumps({"tenant": begun.tenant, "response_id": begun.response_id})
    draft = JobDraft(begun.response_id, QUEUE, ticket, max_attempts=TICKET_ATTEMPTS)
    await jobs.enqueue_job(DISPATCH_TENANT, draft)


def payload_of(begun: Begun) -> bytes:
    """A turn as its job holds it: what was accepted, without parsing any of it again."""
    facts: Object = {
        "created_at": begun.turn.created_at,
        "parent_id": begun.parent_id,
        "session_id": begun.lease.fence.session_id if begun.lease is not None else None,
    }
    payload = dumps(facts)
    for name in _RAW:
        payload = with_member(payload, name, getattr(begun.turn, name))
    return payload


def begun_of(tenant: str, job: Job) -> Begun:
    """The turn that a job holds. Its record exists, unfinished, and is written under the job's lease."""
    facts = loads(job.payload)
    session_id = facts["session_id"]
    return Begun(
        tenant,
        Turn(job.id, facts["created_at"], **{name: dumps(facts[name]) for name in _RAW}),
        parent_id=facts["parent_id"],
        lease=Lease(Fence(session_id, 0), job.id, 0) if session_id is not None else None,
        logged=True,
        precondition=Precondition(statuses=UNFINISHED, fence=job.fence),
    )
