"""Runs background responses: claims tickets, and the jobs that they stand for.

Any number of workers may run, anywhere. A worker that dies leaves a log and leases that run out; whoever claims the
ticket next goes on with the same generation. Everything is written under the job's lease, so a worker that was only
asleep cannot write over its successor.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from antiphon_core.clock import Clock
from antiphon_core.errors import AntiphonError, Conflict, JobNotFound, ResponseNotFound, Timeout, Unavailable
from antiphon_core.ids import Ids
from antiphon_core.jsons import loads
from antiphon_core.ports.full_store import FullStore
from antiphon_core.ports.jobs import Job, JobOutcome, JobState
from antiphon_core.ports.translator import Translator
from antiphon_edge.background import queueing
from antiphon_edge.background.background import Background
from antiphon_edge.background.charging import StoreCharges
from antiphon_edge.background.job_run import JobRun
from antiphon_edge.compaction.compacting_translator import CompactingTranslator
from antiphon_edge.sealed.sealing import Sealer
from antiphon_edge.settings import WorkerSettings
from antiphon_edge.turns.beginning import Beginnings
from antiphon_edge.turns.metering import Meter

log = logging.getLogger(__name__)

LEASE_MS = 6_000  # so long after a worker's death another one takes over
HEARTBEAT_S = 0.5  # so long after it was asked for a response is cancelled, at most
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
    ) -> None:
        """`sealer` has the keys of the edges that its responses are brought back to."""
        self._settings = settings
        self._store = store
        self._translator = translator = CompactingTranslator(translator, clock=clock)
        self._beginnings = Beginnings(store, clock=clock, ids=ids, sealer=sealer)
        self._background = Background(store, translator, self._beginnings, clock=clock)
        self._charges = StoreCharges(store)
        self._meter = Meter(self._charges.charge)
        self._name = f"worker-{ids.hex(12)}"
        self._stopping = asyncio.Event()
        self._door = asyncio.Lock()
        self._slots: list[asyncio.Task[None]] = []

    async def start(self) -> None:
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
        await self._charges.settle()

    async def _slot(self, holder: str) -> None:
        """One ticket after the other."""
        while not self._stopping.is_set():
            try:
                ticket = await self._next_ticket(holder)
                if ticket is not None:
                    async with self._beating(ticket):
                        await self._serve(ticket, holder)
            except AntiphonError as error:
                log.warning("a background response is left for another attempt: %s", error.message)
                await asyncio.sleep(PAUSE_S)
            except Exception:
                log.exception("a background response broke")
                await asyncio.sleep(PAUSE_S)

    async def _next_ticket(self, holder: str) -> Job | None:
        """One slot at a time waits for a ticket: many would ask the store the same, many times a second."""
        async with self._door:
            return None if self._stopping.is_set() else await self._claim(holder)

    async def _claim(self, holder: str) -> Job | None:
        claim = asyncio.create_task(
            self._store.claim_job(
                queueing.DISPATCH_TENANT,
                [queueing.QUEUE],
                holder=holder,
                lease_ttl_ms=LEASE_MS,
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
                job = await self._store.claim_job(tenant, [queueing.QUEUE], holder=holder, lease_ttl_ms=LEASE_MS)
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
            job = await self._store.describe_job(tenant, response_id)
        except JobNotFound:
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
            with suppress(Conflict, JobNotFound):
                await self._store.settle_job(tenant, job.fence, outcome)

    async def _attempt(self, tenant: str, job: Job) -> JobOutcome:
        run = JobRun(self._store, self._translator, self._beginnings, tenant=tenant, job=job, meter=self._meter)
        going = asyncio.create_task(run.go(), name=f"background {job.id}")
        try:
            if await self._until_done_or_cancelled(tenant, job, going):
                return JobOutcome.SUCCEEDED
            await _stop(going)
            await run.cancel()
            return JobOutcome.CANCELLED
        finally:
            await _stop(going)
            await run.leave()

    async def _until_done_or_cancelled(self, tenant: str, job: Job, going: asyncio.Task[None]) -> bool:
        """Keeps the lease while it goes; whether it came to its end. StaleFence: the job is somebody else's."""
        is_wanted = not job.cancel_requested
        while is_wanted:
            await asyncio.wait([going], timeout=HEARTBEAT_S)
            if going.done():
                going.result()
                return True
            is_wanted = await self._is_wanted(tenant, job)
        return False

    async def _is_wanted(self, tenant: str, job: Job) -> bool:
        """Extends the lease of a job; whether nobody asked for its end."""
        try:
            pulse = await self._store.heartbeat_job(tenant, job.fence, lease_ttl_ms=LEASE_MS)
        except (Unavailable, Timeout) as error:
            # It may be back before the lease is over; after that it refuses what is written.
            log.warning("the lease of job %s could not be extended: %s", job.id, error.message)
            return True
        return not pulse.cancel_requested

    @asynccontextmanager
    async def _beating(self, ticket: Job) -> AsyncIterator[None]:
        """Keeps the ticket's lease."""

        async def beat() -> None:
            while True:
                await asyncio.sleep(LEASE_MS / 1000 / 3)
                with suppress(AntiphonError):  # a ticket that is lost costs a second look, and nothing else
                    await self._store.heartbeat_job(queueing.DISPATCH_TENANT, ticket.fence, lease_ttl_ms=LEASE_MS)

        beating = asyncio.create_task(beat())
        try:
            yield
        finally:
            beating.cancel()
            await asyncio.wait([beating])


async def _stop(going: asyncio.Task[None]) -> None:
    """Returns when a task has ended, one way or the other."""
    going.cancel()
    await asyncio.wait([going])
    if not going.cancelled() and going.exception() is not None:
        log.debug("%s ended with %r", going.get_name(), going.exception())
