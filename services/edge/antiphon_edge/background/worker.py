"""Runs background responses: claims their jobs, of one tenant after the other.

Any number of workers may run, on any host. A worker that dies leaves a log and a lease that expires; the next worker
continues the same generation. All writes carry the job's fence, so a worker that was only suspended cannot overwrite
what its successor wrote. A job holds a slot only while it runs: a job that cannot run now is postponed.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from functools import partial

from antiphon_core.clock import Clock
from antiphon_core.drain_time import DrainTime
from antiphon_core.errors import AntiphonError, Conflict, DataDamaged, JobNotFound, ResponseNotFound
from antiphon_core.ids import Ids
from antiphon_core.ports.full_store import FullStore
from antiphon_core.ports.jobs import (
    DISPATCH_QUEUE,
    DISPATCH_TENANT,
    PAYLOAD_DAMAGED,
    Job,
    JobOutcome,
    JobPulse,
    JobState,
)
from antiphon_core.ports.tools import Tools
from antiphon_core.ports.translator import Translator
from antiphon_core.process_load import ProcessLoad
from antiphon_core.telemetry import correlation, metrics, remedies, spans, tracing
from antiphon_core.telemetry.correlation import Correlation
from antiphon_core.telemetry.log_limit import LogLimit
from antiphon_core.telemetry.spans import SpanKind
from antiphon_core.tracebacks import release_frames
from antiphon_edge.background.background import Background
from antiphon_edge.background.background_policy import JOB_ATTEMPTS, BackgroundPolicy, Postponed, TurnCancelled
from antiphon_edge.background.charging import StoreCharges
from antiphon_edge.background.model_health import ModelHealth
from antiphon_edge.compaction.compacting_translator import CompactingTranslator
from antiphon_edge.prewarming import PrewarmingTranslator
from antiphon_edge.quotas.metering import Meter
from antiphon_edge.sealed.sealing import Sealer
from antiphon_edge.settings import WorkerSettings
from antiphon_edge.store_calls import retrying
from antiphon_edge.turns.accepted_turn import AcceptedTurn, accepted_of
from antiphon_edge.turns.leases import JobLease
from antiphon_edge.turns.turn_parts import TurnParts
from antiphon_edge.turns.turn_timing import TurnTiming

log = logging.getLogger(__name__)

CLAIM_WAIT_MS = 10_000
PAUSE_S = 0.5  # after an error, and between two checks of an overloaded process
LAG_S_MAX, MEMORY_SHARE_MAX = 0.25, 0.8  # edges reject turns at 0.5 s and 90 %: background responses wait earlier

_OPEN_STATES = frozenset({JobState.QUEUED, JobState.RUNNING})


class Worker:
    """A part of a process that runs up to `settings.slots` background responses at a time."""

    name = "worker"
    work = "background response"

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
        load: ProcessLoad | None = None,
        drain_time: DrainTime | None = None,
        tools: Tools | None = None,
    ) -> None:
        """`sealer` has the keys of the edges, which open what it seals. `load` is the load of this process. The
        drain of `stop` counts from the beginning of `drain_time`. Without `tools` no tools of servers are called."""
        self._drain_time = drain_time or DrainTime(clock)
        self._busy = 0
        self._load = load or ProcessLoad()
        self._settings = settings
        self._clock = clock
        self._timing = timing = timing or TurnTiming(linger_s=settings.event_log_linger_ms / 1000)
        self._store = store = retrying(store, restart_wait_s=settings.restart_wait_s)
        self._translator = translator = PrewarmingTranslator(CompactingTranslator(translator, clock=clock), clock=clock)
        parts = partial(TurnParts.of, tools=tools, tool_limits=settings.tool_limits)
        self._parts = parts(store, translator, clock=clock, ids=ids, sealer=sealer, timing=timing)
        self._background = Background(self._parts, store)
        self._charges = StoreCharges(store)
        self._meter = Meter(self._charges.charge)
        self._models = ModelHealth(timing.engine_retry, clock=clock)
        self._name = f"worker-{ids.hex(12)}"
        self._stopping = asyncio.Event()
        self._claim_lock = asyncio.Lock()
        self._failed_claims = LogLimit()
        self._slots: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        metrics.WORKER_SLOTS.of().set(self._settings.slots)
        self._slots = [
            asyncio.create_task(self._slot(f"{self._name}/{number}"), name=f"worker slot {number}")
            for number in range(self._settings.slots)
        ]

    @property
    def drain_s(self) -> float:
        return self._settings.drain_s

    @property
    def running(self) -> int:
        """The number of running responses."""
        return self._busy

    async def stop(self) -> None:
        """Claims no more jobs, waits `drain_s` at most for running responses, and leaves the rest to other workers."""
        self._stopping.set()
        await asyncio.wait(self._slots, timeout=self._drain_time.left_s(self._settings.drain_s))
        for slot in self._slots:
            slot.cancel()
        await asyncio.gather(*self._slots, return_exceptions=True)
        await self._parts.cleanup.settle()
        await self._charges.settle()

    async def _slot(self, holder: str) -> None:
        """Runs one job after the other until the worker stops."""
        while not self._stopping.is_set():
            correlation.begin(Correlation())
            job = await self._next_job(holder)
            if job is not None:
                await self._take_or_log(job)

    async def _take_or_log(self, job: Job) -> None:
        try:
            await self._take(job)
        except AntiphonError as error:
            log.warning("the attempt at response %s failed and is tried again: %s", job.id, error.message)
            release_frames(error)
            await self._pause()
        except Exception as error:
            message = "the attempt at response %s failed and is tried again"
            log.error(message, job.id, exc_info=error, extra=remedies.REPORT)
            release_frames(error)
            await self._pause()

    async def _take(self, job: Job) -> None:
        correlation.note(response_id=job.id, job_id=job.id)
        busy = metrics.WORKER_SLOTS_BUSY.of()
        busy.add()
        self._busy += 1
        try:
            # A job without a lease is over: its last attempt expired, and only its response has to be ended.
            if job.lease_expires_at_ms and await self._run(job.tenant, job) is JobOutcome.SUCCEEDED:
                return
            await self._end_if_over(job.tenant, job.id)
        finally:
            busy.add(-1)
            self._busy -= 1

    async def _next_job(self, holder: str) -> Job | None:
        """Claims a job; None if there is none now, or the claim failed. One slot at a time polls the store, and pauses
        after a failure before the next slot may poll: 64 idle slots of a full store logged 128 lines a second."""
        async with self._claim_lock:
            try:
                return await self._claim_if_able(holder)
            except Exception as error:  # noqa: BLE001 - logged, and the claim is tried again
                self._log_failed_claim(error)
            await self._pause()
            return None

    async def _claim_if_able(self, holder: str) -> Job | None:
        """Claims a job. An overloaded process claims none: turns of waiting callers come first, and another worker may
        be free."""
        if await self._is_overloaded():
            await self._pause()
            return None
        await self._parts.watch.require_room()  # an attempt that cannot be stored is lost
        return None if self._stopping.is_set() else await self._claim(holder)

    def _log_failed_claim(self, error: Exception) -> None:
        if not (count := self._failed_claims.count(self._clock.monotonic())):
            return
        if isinstance(error, AntiphonError):
            log.warning("%d claims of jobs failed and are tried again: %s", count, error.message)
        else:
            log.error("%d claims of jobs failed and are tried again", count, exc_info=error, extra=remedies.REPORT)

    async def _pause(self) -> None:
        """Waits PAUSE_S, or until the worker stops."""
        with suppress(TimeoutError):
            async with asyncio.timeout(PAUSE_S):
                await self._stopping.wait()

    async def _is_overloaded(self) -> bool:
        return self._load.lag_s >= LAG_S_MAX or await self._load.uses_more_than(MEMORY_SHARE_MAX)

    async def _claim(self, holder: str) -> Job | None:
        claim = asyncio.create_task(self._poll(holder))
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait([claim, stopping], return_when=asyncio.FIRST_COMPLETED)
            return claim.result() if claim.done() else None
        finally:
            claim.cancel()
            stopping.cancel()
            await asyncio.wait([claim, stopping])

    async def _poll(self, holder: str) -> Job | None:
        """Waits for a job, in a task of its own that is left out of traces: an idle worker would record too many."""
        tracing.leave_out()
        return await self._store.claim_job(
            DISPATCH_TENANT,
            [DISPATCH_QUEUE],
            holder=holder,
            lease_ttl_ms=self._timing.job_lease_ms,
            wait_ms=CLAIM_WAIT_MS,
        )

    async def _end_if_over(self, tenant: str, response_id: str) -> None:
        """Ends a response if its job is over and left it unfinished."""
        with suppress(JobNotFound, ResponseNotFound):
            if (await self._store.describe_job(tenant, response_id)).state not in _OPEN_STATES:
                await self._background.current(tenant, response_id)

    async def _run(self, tenant: str, job: Job) -> JobOutcome:
        """Makes one attempt at a job, and settles the job with the outcome."""
        lease, outcome, pause_s, reason = JobLease(self._store, tenant, job), JobOutcome.RETRY, 0.0, ""
        try:
            outcome, pause_s = await self._attempt(tenant, job, lease)
        except DataDamaged:  # each further attempt would read the same
            outcome, reason = JobOutcome.FAILED, PAYLOAD_DAMAGED
        finally:
            metrics.JOB_ATTEMPTS.of(outcome).add()
            with suppress(Conflict, JobNotFound):
                await lease.settle(outcome, reason=reason, after_ms=round(pause_s * 1000))
        return outcome

    async def _attempt(self, tenant: str, job: Job, lease: JobLease) -> tuple[JobOutcome, float]:
        """Runs a response under the lease of its job. Returns the outcome, and the seconds before the next attempt."""
        accepted = await accepted_of(tenant, job, lease)
        correlation.begin(accepted.made_for)
        pause_s = self._models.begin(accepted.model)
        if pause_s and not job.cancel_requested:
            return JobOutcome.WAITED, pause_s
        self._note_start(job, accepted)
        with tracing.span(spans.JOB, SpanKind.CONSUMER, {spans.ATTEMPT: job.attempt}):
            return await self._run_turn(job, accepted)

    def _note_start(self, job: Job, accepted: AcceptedTurn) -> None:
        postponed = job.max_attempts - JOB_ATTEMPTS  # each postponement gives the job one attempt more
        if job.attempt - postponed > 1:
            metrics.TAKEOVERS.of("worker").add()
        elif accepted.accepted_at_ms:
            metrics.JOB_WAIT.of().observe(max(0, self._clock.now_ms() - accepted.accepted_at_ms) / 1000)

    async def _run_turn(self, job: Job, accepted: AcceptedTurn) -> tuple[JobOutcome, float]:
        turn = BackgroundPolicy(
            self._store,
            self._parts.starter,
            accepted=accepted,
            job=job,
            meter=self._meter,
            timing=self._timing,
        )
        run = turn.turn_run

        def note_pulse(pulse: JobPulse) -> None:
            if turn.has_output:
                self._models.note_output(accepted.model)
            if pulse.cancel_requested:
                run.break_off(TurnCancelled())

        run.on_pulse = note_pulse
        if job.cancel_requested:
            run.break_off(TurnCancelled())
        try:
            await turn.run(self._parts.runner)
        except Postponed as postponed:
            if postponed.is_model_fault:
                self._models.note_failure(accepted.model)
            else:
                self._note_end(turn, accepted.model)
            log.warning("%s is tried again in %.1f s: %s", job.id, postponed.pause_s, postponed)
            release_frames(postponed)
            return JobOutcome.RETRY if postponed.counts else JobOutcome.POSTPONED, postponed.pause_s
        except BaseException:
            self._note_end(turn, accepted.model)
            raise
        self._note_end(turn, accepted.model)
        return JobOutcome.CANCELLED if turn.is_cancelled else JobOutcome.SUCCEEDED, 0.0

    def _note_end(self, turn: BackgroundPolicy, model: str) -> None:
        """Tells the circuit breaker whether the model answered in an attempt that ended."""
        if turn.has_output:
            self._models.note_output(model)
        else:
            self._models.gave_up(model)
