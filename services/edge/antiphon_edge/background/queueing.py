"""The queue of background responses: their jobs, and the first events of their logs.

One `CommitTurn` writes the job, the record and the event log, all under the tenant of the response. Each write of a
worker is checked against the worker's lease on the job, in the transaction of the write. Workers do not know the
tenants: they claim jobs in DISPATCH_TENANT, and the store serves the tenants round robin.
"""

from __future__ import annotations

from antiphon_core import events
from antiphon_core.jsons import Object
from antiphon_core.ports import jobs
from antiphon_core.ports.event_logs import EventAppend
from antiphon_core.ports.store import TurnJob
from antiphon_edge.turns.accepted_turn import AcceptedTurn, payload_of

QUEUE = jobs.DISPATCH_QUEUE
DISPATCH_TENANT = jobs.DISPATCH_TENANT
JOB_ATTEMPTS = 5  # a worker that stops or dies in mid-turn uses one up
WAITING_LEASE_MS = 600_000
"""The lifetime of the session lease of a response that waits for a worker."""
OPENING_EVENTS = 2  # the number of events in `opening`


def job_of(accepted: AcceptedTurn) -> TurnJob:
    """The job of a turn that waits for a worker, which the store adds together with its record."""
    return TurnJob(payload_of(accepted), JOB_ATTEMPTS, WAITING_LEASE_MS)


def opening(response_id: str, queued: Object) -> EventAppend:
    """The first events of a background response; response.in_progress is sent by the first worker."""
    frames = [
        events.encode({"type": event_type, "sequence_number": number, "response": queued})
        for number, event_type in enumerate((events.CREATED, events.QUEUED))
    ]
    return EventAppend(response_id, 0, len(frames), b"".join(frames))
