"""Accepted turns: the request to the translator, and the facts that the turn's record needs besides its result.

The payload of a job is an accepted turn as the store keeps it for the process that will run the turn.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter
from typing import TypeVar

from antiphon_core import damage, offload
from antiphon_core.errors import TooLarge
from antiphon_core.jsons import Object, dumps, join_arrays, loads, with_member
from antiphon_core.limits import JOB_PAYLOAD_BYTES_MAX
from antiphon_core.ports.jobs import DISPATCH_QUEUE, Job
from antiphon_core.ports.store import (
    NO_PRECONDITION,
    UNFINISHED,
    ApprovalAnswer,
    ApprovalDraft,
    Fence,
    Lease,
    Precondition,
    Record,
    Status,
    TurnRequest,
)
from antiphon_core.ports.tools import Credentials
from antiphon_core.ports.translator import Turn
from antiphon_core.telemetry.correlation import REQUEST_ID_KEY, Correlation
from antiphon_edge.tools.declared_servers import NO_TOOLS, DeclaredTools
from antiphon_edge.turns.leases import JobLease

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AcceptedTurn:
    """A request that will become a response."""

    tenant: str
    turn: Turn
    """The request to the translator."""
    is_stored: bool = True
    """Whether its record is stored."""
    parent_id: str | None = None
    """The response that this one continues."""
    lease: Lease | None = None
    """The lease of its session. In a turn that was decoded from a job, the lease has the token 0: it only names the
    session, which has yet to be leased."""
    key: str | None = None
    """The idempotency key."""
    fingerprint: bytes = b""
    """A hash of the request, which tells two requests under one key apart."""
    conversation_state: bytes = b""
    """The hash state behind its input, with which a client that resends the conversation finds its lineage
    (resent_conversations.py). Empty if it continues a response."""
    has_log: bool = False
    """Whether its events are written to the store's event log."""
    precondition: Precondition = NO_PRECONDITION
    """Conditions that must still hold when its record is written."""
    consumes: Sequence[ApprovalAnswer] = ()
    """The answers to approval requests that the turn took at its beginning."""
    asks: Sequence[ApprovalDraft] = field(default=(), compare=False)
    """The approvals that its response asks for, once that has ended."""
    job_lease: JobLease | None = field(default=None, compare=False)
    """The lease of its job, if it is a durable turn that this process runs."""
    is_from_job: bool = field(default=False, compare=False)
    """Whether it was decoded from its job: its event log tells how far it came."""
    declared: DeclaredTools = field(default=NO_TOOLS, compare=False)
    """The tools of the request that this server runs."""
    model: str = field(default="", compare=False)
    """The model name in the request."""
    made_for: Correlation = field(default=Correlation(), compare=False)
    """The ids of the HTTP request that the turn answers."""
    accepted_at_ms: int = field(default=0, compare=False)
    """When the request was accepted, by the wall clock; 0 if unknown."""
    credentials: Mapping[str, Credentials] = field(default_factory=dict, compare=False, repr=False)
    """The credentials of the request for its tool servers, by label. They are in no payload of a job."""
    started_s: float = field(default_factory=perf_counter, compare=False)
    """When this process began the turn, by `time.perf_counter`."""

    @property
    def response_id(self) -> str:
        return self.turn.response_id

    @property
    def fence(self) -> Fence | None:
        """The fence of the session's lease, if the turn holds that lease."""
        return self.lease.fence if self.lease is not None and self.lease.fence.token else None

    async def under_fence(self, write: Callable[[Fence | None], Awaitable[T]]) -> T:
        """Calls `write` with the current fence of the turn's job, or with None if the turn has no job."""
        return await (write(None) if self.job_lease is None else self.job_lease.under_fence(write))

    @property
    def key_claim(self) -> TurnRequest:
        """The request that claims its key again, because the turn may take longer than a claim lasts."""
        return TurnRequest(idempotency_key=self.key, fingerprint=self.fingerprint, response_id=self.response_id)

    def record(self, status: Status, body: bytes, output_items: bytes) -> Record:
        """Builds the turn's record."""
        return Record(
            id=self.turn.response_id,
            status=status,
            body=body,
            input_items=self.turn.input,
            output_items=output_items,
            parent_id=self.parent_id,
            session_id=self.lease.fence.session_id if self.lease is not None else None,
        )

    def as_root(self) -> AcceptedTurn:
        """The turn without a parent: its history becomes the beginning of its input."""
        whole = join_arrays([self.turn.history, self.turn.input])
        return replace(self, turn=replace(self.turn, history=b"[]", input=whole), parent_id=None)


@dataclass(frozen=True, slots=True)
class RepeatedRequest:
    """A request whose idempotency key was used before, by the response `response_id`."""

    tenant: str
    response_id: str
    record: Record | None = None
    """The record of that response, if it has ended."""
    key: str | None = None
    fingerprint: bytes = b""
    credentials: Mapping[str, Credentials] = field(default_factory=dict, compare=False, repr=False)
    """Those of the repeated request, with which this edge continues the turn."""


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
        "consumes": [[each.id, each.is_approved] for each in accepted.consumes],
        "lineages": [b64encode(each).decode() for each in accepted.turn.lineages],
        "round_lineage": b64encode(accepted.turn.round_lineage).decode(),
        "conversation_state": accepted.conversation_state.hex(),
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
        facts, turn, declared = await offload.run(partial(_turn_of, job), size_bytes=len(job.payload))
        session_id = facts["session_id"]
        return AcceptedTurn(
            tenant,
            replace(turn, tenant=tenant),
            parent_id=facts["parent_id"],
            lease=Lease(Fence(session_id, 0), job.id, 0) if session_id is not None else None,
            conversation_state=bytes.fromhex(facts.get("conversation_state", "")),
            has_log=True,
            precondition=Precondition(statuses=UNFINISHED) if job.queue == DISPATCH_QUEUE else NO_PRECONDITION,
            job_lease=lease,
            is_from_job=True,
            declared=declared,
            model=facts["request"].get("model", ""),
            made_for=_made_for(job, facts),
            accepted_at_ms=facts.get("accepted_at_ms", 0),
            consumes=[ApprovalAnswer(*each) for each in facts.get("consumes", ())],
        )


def _made_for(job: Job, facts: Object) -> Correlation:
    """The ids of the request that a job was made for. Jobs of older releases do not have them."""
    asked = Correlation.of_call({REQUEST_ID_KEY: facts.get("request_id", ""), **facts.get("trace", {})})
    return replace(asked, response_id=job.id, job_id=job.id)


def _turn_of(job: Job) -> tuple[Object, Turn, DeclaredTools]:
    """The facts in a payload, the turn, and the tools that this server runs for it."""
    facts: Object = loads(job.payload)
    lineages = tuple(map(b64decode, facts.get("lineages", ())))  # jobs of older releases have none
    found = b64decode(facts.get("round_lineage", ""))
    texts = (dumps(facts[name]) for name in _RAW)
    turn = Turn(job.id, facts["created_at"], *texts, lineages=lineages, round_lineage=found)
    return facts, turn, DeclaredTools.read(facts["request"])
