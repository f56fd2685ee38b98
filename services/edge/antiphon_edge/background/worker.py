"""Runs background responses: claims tickets, and the jobs that they stand for.

Any number of workers may run, anywhere. A worker that dies leaves a log and leases that run out; whoever claims the
ticket next goes on with the same generation. Everything is written under the job's lease, so a worker that was only
asleep cannot write over its successor.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AbstractAsyncContextManager, suppress

from antiphon_core.clock import Clock
from antiphon_core.errors import AntiphonError, Conflict, JobNotFound, ResponseNotFound
from antiphon_core.ids import Ids
from antiphon_core.jsons import loads
from antiphon_core.ports.full_store import FullStore
from antiphon_core.ports.jobs import Job, JobOutcome, JobState
from antiphon_core.ports.translator import Translator
from antiphon_core.telemetry import correlation, metrics, remedies, spans, tracing
from antiphon_core.telemetry.correlation import Correlation
from antiphon_core.telemetry.spans import SpanKind
from antiphon_edge.background import queueing
from antiphon_edge.background.background import Background
from antiphon_edge.background.charging import StoreCharges
from antiphon_edge.background.queued_turn import QueuedTurn, TurnCancelled
from antiphon_edge.compaction.compacting_translator import CompactingTranslator
from antiphon_edge.sealed.sealing import Sealer
from antiphon_edge.settings import WorkerSettings
from antiphon_edge.turns import job_payload, lease_keeper
from antiphon_edge.turns.accepted_turn import AcceptedTurn
from antiphon_edge.turns.metering import Meter
from antiphon_edge.turns.store_retry import with_retries
from antiphon_edge.turns.turn_runner import TurnRunner
from antiphon_edge.turns.turn_starter import TurnStarter
from antiphon_edge.turns.turn_timing import TurnTiming

log = logging.getLogger(__name__)

CLAIM_WAIT_MS = 10_000
PAUSE_S = 0.5  # after an error of the store, and between two looks at a job that somebody else has

_RUNS = frozenset({JobState.QUEUED, JobState.RUNNING})


class Worker:
    """A part of a process. It runs so many responses at a time as its settings say."""

    name = "worker"

    def __init__(
        self,
        settings: WorkerSettings,
        store: FullStore,
        translator: Translator,
        *,
        clock: Clock,
        ids: Ids,
        sealer: Sealer,
        timing: TurnTiming | None = None,
    ) -> None:
        """`sealer` has the keys of the edges that its responses are brought back to."""
        self._settings = settings
        self._clock = clock
        self._timing = timing = timing or TurnTiming(linger_s=settings.event_log_linger_ms / 1000)
        self._store = store
        self._translator = translator = CompactingTranslator(translator, clock=clock)
        self._starter = TurnStarter(store, clock=clock, ids=ids, sealer=sealer)
        self._runner = TurnRunner(store, translator, sealer=sealer, cleanup=self._starter.cleanup, timing=timing)
        self._background = Background(store, translator, self._starter, timing=timing)
        self._charges = StoreCharges(store)
        self._meter = Meter(self._charges.charge)
        self._name = f"worker-{ids.hex(12)}"
        self._stopping = asyncio.Event()
        self._claim_lock = asyncio.Lock()
        self._slots: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        metrics.WORKER_SLOTS.of().set(self._settings.slots)
        self._slots = [
            asyncio.create_task(self._slot(f"{self._name}/{number}"), name=f"worker slot {number}")
            for number in range(self._settings.slots)
        ]

    async def stop(self) -> None:
        """Takes nothing new, gives running responses their time, and leaves the rest to others."""
        self._stopping.set()
        await asyncio.wait(self._slots, timeout=self._settings.drain_s)
        for slot in self._slots:
            slot.cancel()
        await asyncio.gather(*self._slots, return_exceptions=True)
        await self._starter.cleanup.settle()
        await self._charges.settle()

    async def _slot(self, holder: str) -> None:
        """One ticket after the other."""
        while not self._stopping.is_set():
            ticket = None
            correlation.begin(Correlation())
            try:
                ticket = await self._next_ticket(holder)
                if ticket is not None:
                    await self._take(ticket, holder)
            except AntiphonError as error:
                log.warning("response %s is left for another attempt: %s", _named(ticket), error.message)
                await asyncio.sleep(PAUSE_S)
            except Exception:
                log.exception(
                    "the attempt at response %s failed; another one will be made",
                    _named(ticket),
                    extra=remedies.REPORT,
                )
                await asyncio.sleep(PAUSE_S)

    async def _take(self, ticket: Job, holder: str) -> None:
        correlation.note(response_id=ticket.id, job_id=ticket.id)
        busy = metrics.WORKER_SLOTS_BUSY.of()
        busy.add()
        try:
            async with self._ticket_kept(ticket):
                await self._serve(ticket, holder)
        finally:
            busy.add(-1)

    async def _next_ticket(self, holder: str) -> Job | None:
        """One slot at a time waits for a ticket: many would ask the store the same, many times a second."""
        async with self._claim_lock:
            return None if self._stopping.is_set() else await self._claim(holder)

    async def _claim(self, holder: str) -> Job | None:
        claim = asyncio.create_task(
            self._store.claim_job(
                queueing.DISPATCH_TENANT,
                [queueing.QUEUE],
                holder=holder,
                lease_ttl_ms=self._timing.job_lease_ms,
                wait_ms=CLAIM_WAIT_MS,
            )
        )
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait([claim, stopping], return_when=asyncio.FIRST_COMPLETED)
            return claim.result() if claim.done() else None
        finally:
            claim.cancel()
            stopping.cancel()
            await asyncio.wait([claim, stopping])

    async def _serve(self, ticket: Job, holder: str) -> None:
        """Works until the ticket's response has its end, whoever brings that about."""
        facts = loads(ticket.payload)
        tenant, response_id = facts["tenant"], facts["response_id"]
        outcome = JobOutcome.RETRY
        try:
            while True:
                job = await self._store.claim_job(
                    tenant, [queueing.QUEUE], holder=holder, lease_ttl_ms=self._timing.job_lease_ms
                )
                if job is not None:
                    await self._run(tenant, job)
                if await self._is_over(tenant, response_id):
                    outcome = JobOutcome.SUCCEEDED
                    return
                if self._stopping.is_set():
                    return
                await asyncio.sleep(PAUSE_S)
        finally:
            with suppress(Conflict, JobNotFound):
                await self._store.settle_job(queueing.DISPATCH_TENANT, ticket.fence, outcome)

    async def _is_over(self, tenant: str, response_id: str) -> bool:
        """Whether a response's job has ended. What the job left unfinished is ended, too."""
        try:
            job = await with_retries(
                lambda: self._store.describe_job(tenant, response_id),
                self._timing.job_arrival,
                passing=(JobNotFound,),
            )
        except JobNotFound:  # it was refused, or is forgotten
            return True
        if job.state in _RUNS:
            return False
        with suppress(ResponseNotFound):
            await self._background.current(tenant, response_id)
        return True

    async def _run(self, tenant: str, job: Job) -> None:
        """One attempt at a job."""
        outcome = JobOutcome.RETRY
        try:
            outcome = await self._attempt(tenant, job)
        finally:
            metrics.JOB_ATTEMPTS.of(outcome).add()
            with suppress(Conflict, JobNotFound):
                await self._store.settle_job(tenant, job.fence, outcome)

    async def _attempt(self, tenant: str, job: Job) -> JobOutcome:
        """Runs a response under the lease of its job. The heartbeat tells when its end was asked for."""
        accepted = await job_payload.accepted_of(tenant, job)
        correlation.begin(accepted.made_for)
        self._note_start(job, accepted)
        with tracing.span(spans.JOB, SpanKind.CONSUMER, {spans.ATTEMPT: job.attempt}):
            return await self._run_turn(tenant, job, accepted)

    def _note_start(self, job: Job, accepted: AcceptedTurn) -> None:
        if job.attempt > 1:
            metrics.TAKEOVERS.of("worker").add()
        elif accepted.accepted_at_ms:
            metrics.JOB_WAIT.of().observe(max(0, self._clock.now_ms() - accepted.accepted_at_ms) / 1000)

    async def _run_turn(self, tenant: str, job: Job, accepted: AcceptedTurn) -> JobOutcome:
        turn = QueuedTurn(
            self._store,
            self._starter,
            accepted=accepted,
            job=job,
            meter=self._meter,
            timing=self._timing,
        )
        run = turn.turn_run

        async def renew() -> None:
            pulse = await self._store.heartbeat_job(tenant, job.fence, lease_ttl_ms=self._timing.job_lease_ms)
            if pulse.cancel_requested:
                run.break_off(TurnCancelled())

        if job.cancel_requested:
            run.break_off(TurnCancelled())
        async with lease_keeper.kept(f"job {job.id}", renew, self._timing.cancel_pace, on_lost=run.break_off):
            await turn.run(self._runner)
        return JobOutcome.CANCELLED if turn.is_cancelled else JobOutcome.SUCCEEDED

    def _ticket_kept(self, ticket: Job) -> AbstractAsyncContextManager[None]:
        """Renews the lease of a ticket. A ticket that is lost costs a second look at its job, and nothing else."""
        tenant, fence = queueing.DISPATCH_TENANT, ticket.fence
        return lease_keeper.kept(
            f"ticket {ticket.id}",
            lambda: self._store.heartbeat_job(tenant, fence, lease_ttl_ms=self._timing.job_lease_ms),
            self._timing.job_pace,
        )


def _named(ticket: Job | None) -> str:
    return ticket.id if ticket is not None else "that is to be claimed"
