"""The payload of a job: an accepted turn as the store keeps it for the process that will run the turn."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from antiphon_core import damage, offload
from antiphon_core.errors import TooLarge
from antiphon_core.jsons import Object, dumps, loads, with_member
from antiphon_core.limits import JOB_PAYLOAD_BYTES_MAX
from antiphon_core.ports.jobs import DISPATCH_QUEUE, Job
from antiphon_core.ports.store import NO_PRECONDITION, UNFINISHED, Fence, Lease, Precondition
from antiphon_core.ports.translator import Turn
from antiphon_core.telemetry.correlation import REQUEST_ID_KEY, Correlation
from antiphon_edge.turns.accepted_turn import AcceptedTurn
from antiphon_edge.turns.leases import JobLease

_RAW = ("request", "history", "input")


def payload_of(accepted: AcceptedTurn) -> bytes:
    """Encodes a turn for its job. The request, the history and the input are put in as they are, without parsing."""
    facts: Object = {
        "created_at": accepted.turn.created_at,
        "parent_id": accepted.parent_id,
        "session_id": accepted.lease.fence.session_id if accepted.lease is not None else None,
        "accepted_at_ms": accepted.accepted_at_ms,
        "request_id": accepted.made_for.request_id,
        "trace": dict(accepted.made_for.trace.headers()) if accepted.made_for.trace is not None else {},
    }
    payload = dumps(facts)
    for name in _RAW:
        payload = with_member(payload, name, getattr(accepted.turn, name))
    return payload


@contextmanager
def size_errors_translated() -> Iterator[None]:
    """Translates the store's TooLarge for the caller of a turn, who knows neither the payload of its job nor its event
    log."""
    try:
        yield
    except TooLarge as error:
        raise TooLarge(
            "The request is too large for a background response or an idempotency key: with the history that it "
            f"continues it may have {JOB_PAYLOAD_BYTES_MAX} bytes, and its instructions and tools half of that."
        ) from error


async def accepted_of(tenant: str, job: Job, lease: JobLease) -> AcceptedTurn:
    """Decodes the turn of a job that this process holds. The turn names its session and does not hold the session's
    lease. A background response has a record, which is unfinished.

    Raises:
        DataDamaged: the payload is not that of a turn.
    """
    with damage.reading(f"the payload of job '{job.id}'"):
        facts, turn = await offload.run(partial(_turn_of, job), size_bytes=len(job.payload))
        session_id = facts["session_id"]
        return AcceptedTurn(
            tenant,
            replace(turn, tenant=tenant),
            parent_id=facts["parent_id"],
            lease=Lease(Fence(session_id, 0), job.id, 0) if session_id is not None else None,
            logged=True,
            precondition=Precondition(statuses=UNFINISHED) if job.queue == DISPATCH_QUEUE else NO_PRECONDITION,
            job_lease=lease,
            is_from_job=True,
            model=facts["request"].get("model", ""),
            made_for=_made_for(job, facts),
            accepted_at_ms=facts.get("accepted_at_ms", 0),
        )


def _made_for(job: Job, facts: Object) -> Correlation:
    """The ids of the request that a job was made for. Jobs of older releases do not have them."""
    asked = Correlation.of_call({REQUEST_ID_KEY: facts.get("request_id", ""), **facts.get("trace", {})})
    return replace(asked, response_id=job.id, job_id=job.id)


def _turn_of(job: Job) -> tuple[Object, Turn]:
    """The facts in a payload, and the turn."""
    facts: Object = loads(job.payload)
    return facts, Turn(job.id, facts["created_at"], *(dumps(facts[name]) for name in _RAW))
