"""Background responses over a store in memory: callers, workers that can be killed, and a model with one fixed text."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, cast

import pytest

from antiphon_core import events, response
from antiphon_core.clock import ManualClock
from antiphon_core.errors import InvalidRequest, StoreUnavailable
from antiphon_core.ids import RandomIds
from antiphon_core.jsons import Object, dumps, loads
from antiphon_core.ports.full_store import FullStore
from antiphon_core.ports.jobs import DISPATCH_QUEUE, Job, JobOutcome
from antiphon_core.ports.store import UNFINISHED, Record, Stamp, Status, TurnCommit
from antiphon_core.ports.translator import Batch, Translator, Turn
from antiphon_core.request.body import CreateRequest
from antiphon_core.request.hosted_tools import HostedTools
from antiphon_core.retrying import RetryPolicy
from antiphon_core.sealing_keys import SealingKeys
from antiphon_edge.background import worker
from antiphon_edge.background.background import Background
from antiphon_edge.background.background_policy import BackgroundPolicy, Postponed, TurnCancelled
from antiphon_edge.background.worker import Worker
from antiphon_edge.sealed.sealing import Sealer
from antiphon_edge.settings import WorkerSettings
from antiphon_edge.turn_settings import SEALED_TTL_S
from antiphon_edge.turns import event_logs
from antiphon_edge.turns.accepted_turn import accepted_of
from antiphon_edge.turns.leases import JobLease, RenewalPace
from antiphon_edge.turns.turn_parts import TurnParts
from antiphon_edge.turns.turn_timing import TurnTiming
from antiphon_store.rows.backend import RowBackend
from antiphon_store.service import StoreService
from antiphon_store.settings import StoreSettings
from antiphon_translator.service import TranslatorService
from antiphon_translator.settings import TranslatorSettings
from tests.support.fixed_text_model import FixedTextEngine
from tests.support.served_models import model
from tests.support.stores import ReachableRows
from tests.support.translators import ScriptedTranslator
from tests.support.turn_services import turn_parts
from tests.support.waiting import WAIT_MAX_S

TENANT = "default"
LEASE_MS = 30_000
PACE = RenewalPace(every_s=0.02, retry_s=0.02)
TIMING = TurnTiming(
    job_lease_ms=LEASE_MS,
    job_pace=PACE,
    cancel_pace=PACE,
    cancel_timeout_s=WAIT_MAX_S,
    engine_retry=RetryPolicy(for_s=0.05, first_s=0.01, most_s=0.01),
    look_again=RetryPolicy(first_s=0.005, most_s=0.005),
    linger_s=0,
    watch_s=0.02,
)
"""Timings in milliseconds, except for the cancellation timeout: a caller that cancels waits for a worker as long as
needed."""
ENDS = frozenset(Status) - UNFINISHED


class TextTranslator(ScriptedTranslator):
    """A translator that reports no token ids. Its events after the opening are numbered like those of a background
    response."""

    async def _play(self, turn: Turn, asked: Object, hangs: bool) -> AsyncGenerator[Batch, None]:
        async for batch in super()._play(turn, asked, hangs):
            if batch.first_sequence < 2:
                continue
            told = [event | {"sequence_number": event["sequence_number"] + 1} for event in events.decode(batch.frames)]
            frames = b"".join(map(events.encode, told))
            yield Batch(batch.first_sequence + 1, batch.count, frames, batch.final)


class FlowingClock(ManualClock):
    """A clock with real time that can also be advanced."""

    def now_ms(self) -> int:
        return super().now_ms() + round(time.monotonic() * 1000)

    def monotonic(self) -> float:
        return self.now_ms() / 1000


class BreakableStore:
    """One process's connection to a store. `lost` makes all its calls fail, `failing` the calls of some names."""

    def __init__(self, store: StoreService) -> None:
        self._store = store
        self.lost = False
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        """The name and arguments of each call so far."""
        self.failing: dict[str, int] = {}
        """The number of further calls that fail, by name."""
        self.executes = False
        """Whether the store executes a call before it fails."""
        self.before: dict[str, Callable[[], Awaitable[None]]] = {}
        """Callbacks that run before a call of each name."""
        self.after: dict[str, Callable[[], Awaitable[object]]] = {}
        """Callbacks that run after a call of each name has succeeded, before its answer."""

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._store, name)
        if name == "read_events":
            return self._read_events
        return lambda *args, **options: self._call(name, real, *args, **options)

    async def _call(self, name: str, real: Callable[..., Awaitable[Any]], *args: Any, **options: Any) -> Any:
        self.calls.append((name, args))
        if name in self.before:
            await self.before[name]()
        if self.lost:
            raise StoreUnavailable("lost")
        if self.failing.get(name, 0) > 0:
            self.failing[name] -= 1
            if self.executes:
                await real(*args, **options)
            raise StoreUnavailable(f"{name} failed")
        answer = await real(*args, **options)
        if name in self.after:
            await self.after[name]()
        return answer

    async def _read_events(self, *args: Any, **options: Any) -> AsyncIterator[Any]:
        async for batch in self._store.read_events(*args, **options):
            if self.lost or self.failing.get("read_events", 0) > 0:
                self.failing["read_events"] = self.failing.get("read_events", 0) - 1
                raise StoreUnavailable("lost")
            yield batch


class KillableWorker:
    """A worker that can be killed, which leaves its leases and its log."""

    def __init__(self, part: Worker, store: BreakableStore, clock: ManualClock) -> None:
        self.part = part
        self.store = store
        self._clock = clock

    async def kill(self) -> None:
        """Stops the worker like kill -9, and lets its leases expire."""
        self.store.lost = True
        await self.end()
        self._clock.advance(LEASE_MS / 1000)

    async def end(self) -> None:
        self.part._stopping.set()
        for slot in self.part._slots:
            slot.cancel()
        await asyncio.gather(*self.part._slots, return_exceptions=True)


class Attempt:
    """One attempt of a worker at a job."""

    def __init__(self, made: Bench, job: Job, tenant: str, store: FullStore) -> None:
        parts = made.parts(store)
        self._runner = parts.runner
        self._make = partial(BackgroundPolicy, store, parts.starter, job=job, timing=made.timing)
        self._tenant, self._job, self._lease = tenant, job, JobLease(store, tenant, job)
        self._error: Exception | None = None
        self.turn: BackgroundPolicy | None = None

    async def go(self) -> None:
        self.turn = self._make(accepted=await accepted_of(self._tenant, self._job, self._lease))
        if self._error is not None:
            self.turn.turn_run.break_off(self._error)
        await self.turn.run(self._runner)

    async def cancel(self) -> None:
        """Ends the response like a worker that learns of the cancellation before its start."""
        self.break_off()
        await self.go()

    def break_off(self) -> None:
        """Cancels the response, also while `go` runs."""
        self._error = TurnCancelled()
        if self.turn is not None:
            self.turn.turn_run.break_off(self._error)


class Bench:
    """The store, clock and engine that several replicas share, and helpers that send requests to one of them."""

    def __init__(
        self,
        translator: Translator | None = None,
        *,
        backend: Callable[[ManualClock], RowBackend] = ReachableRows,
        timing: TurnTiming = TIMING,
    ) -> None:
        self.clock = FlowingClock()
        self.backend: Any = backend(self.clock)
        self.engine = FixedTextEngine()
        self._service: TranslatorService | None = None
        if translator is None:
            self._service = TranslatorService(TranslatorSettings(), clock=self.clock)
            self._service.add(model(), self.engine)
        self.translator: Translator = translator or cast("Translator", self._service)
        self.sealer = Sealer(SealingKeys.ephemeral(), ttl_s=SEALED_TTL_S, clock=self.clock)
        self.timing = timing
        self.store = self.new_store()
        self.edge = self.replica()

    def serve(self, name: str, engine: FixedTextEngine) -> None:
        """Adds a model beside `m`."""
        assert self._service is not None
        self._service.add(model(name=name), engine)

    def new_store(self) -> BreakableStore:
        settings = StoreSettings(lease_poll_ms=5, event_poll_ms=5, job_poll_ms=5)
        return BreakableStore(StoreService(self.backend, settings))

    def parts(self, store: FullStore) -> TurnParts:
        return turn_parts(store, self.translator, clock=self.clock, sealer=self.sealer, timing=self.timing)

    def replica(self) -> Background:
        """Adds an edge."""
        store = cast("FullStore", self.new_store())
        return Background(self.parts(store), store)

    def edge_over(self, store: BreakableStore) -> Background:
        typed = cast("FullStore", store)
        return Background(self.parts(typed), typed)

    @asynccontextmanager
    async def worker(self, *, slots: int = 4, drain_s: float = WAIT_MAX_S) -> AsyncIterator[KillableWorker]:
        store = self.new_store()
        part = Worker(
            WorkerSettings(slots=slots, drain_s=drain_s),
            cast("FullStore", store),
            self.translator,
            clock=self.clock,
            ids=RandomIds(),
            sealer=self.sealer,
            timing=self.timing,
        )
        await part.start()
        made = KillableWorker(part, store, self.clock)
        try:
            yield made
        finally:
            await made.end()

    async def create(self, *, tenant: str = TENANT, key: str | None = None, **members: Any) -> Record:
        return await self.edge.create(tenant, background_request(**members), key=key)

    async def claimed(self, tenant: str = TENANT, *, holder: str = "test") -> Job:
        """Claims the next job for this test."""
        job = await self.store.claim_job(tenant, [DISPATCH_QUEUE], holder=holder, lease_ttl_ms=60_000)
        assert isinstance(job, Job)
        return job

    def run_of(self, job: Job, *, tenant: str = TENANT, store: BreakableStore | None = None) -> Attempt:
        return Attempt(self, job, tenant, cast("FullStore", store or self.store))

    async def run_next(self) -> None:
        """Runs the next job to its end, in as many attempts as needed."""
        while True:
            job = await self.claimed()
            try:
                await self.run_of(job).go()
            except Postponed as postponed:
                outcome = JobOutcome.RETRY if postponed.counts else JobOutcome.POSTPONED
                await self.store.settle_job(TENANT, job.fence, outcome)
                await asyncio.sleep(postponed.pause_s)
            else:
                await self.store.settle_job(TENANT, job.fence, JobOutcome.SUCCEEDED)
                return

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(WAIT_MAX_S):
            while not condition():
                await asyncio.sleep(0.001)

    async def ended(self, response_id: str, *, tenant: str = TENANT) -> Record:
        """Polls another replica until the response has ended, and returns it."""
        replica = self.replica()
        async with asyncio.timeout(WAIT_MAX_S):
            while (record := await replica.current(tenant, response_id)).status not in ENDS:
                await asyncio.sleep(0.005)
        return record

    async def logged(self, response_id: str, *, ids: int = 0, numbers: int = 0, tenant: str = TENANT) -> None:
        """Waits until the log of a response has so many token ids and events, which a worker that takes over would
        find. They are written a moment after they were generated."""
        logs = cast("FullStore", self.store)
        async with asyncio.timeout(WAIT_MAX_S):
            while True:
                kept = await event_logs.read_state(logs, tenant, response_id)
                if len(kept.token_ids) >= ids and kept.fold.next_sequence >= numbers:
                    return
                await asyncio.sleep(0.001)

    async def frames(self, response_id: str, *, after: int | None = None, tenant: str = TENANT) -> bytes:
        """Returns the stream of a response to its end, from another replica."""
        replica = self.replica()
        record = await replica.current(tenant, response_id)
        async with asyncio.timeout(WAIT_MAX_S):
            return b"".join([batch.frames async for batch in replica.stream(tenant, record, after=after)])

    async def log(self, response_id: str, *, tenant: str = TENANT) -> list[Object]:
        """Returns the events of an ended response, and requires that they have no gap and agree with its record."""
        log = events.decode(await self.frames(response_id, tenant=tenant))
        assert [event["sequence_number"] for event in log] == list(range(len(log)))
        return log

    async def close(self) -> None:
        if self._service is not None:
            await self._service.close()
        await self.backend.close()


@asynccontextmanager
async def bench(
    translator: Translator | None = None,
    *,
    backend: Callable[[ManualClock], RowBackend] = ReachableRows,
    timing: TurnTiming = TIMING,
) -> AsyncIterator[Bench]:
    made = Bench(translator, backend=backend, timing=timing)
    await made.backend.open()
    try:
        yield made
    finally:
        await made.close()


def background_request(**members: Any) -> CreateRequest:
    body = {"model": "m", "input": "hi", "background": True} | members
    return CreateRequest.of(body, work_bytes=len(dumps(body)), hosted=HostedTools(frozenset({"mcp"})))


def whole(record: Record) -> Object:
    """Returns a stored response as its clients get it."""
    told: Object = loads(response.join(record.body, record.output_items))
    return told


def text_of(ended: Object) -> str:
    """Returns the text of a response's only message."""
    (item,) = ended["output"]
    return "".join(part["text"] for part in item["content"])


def hasten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shortens the timeouts that TIMING does not set."""
    monkeypatch.setattr(worker, "PAUSE_S", 0.02)
    monkeypatch.setattr(worker, "CLAIM_WAIT_MS", 1_000)
    monkeypatch.setattr(event_logs, "LOOK_AGAIN_S", 0.005)


def without_room_for_output(made: Bench) -> BreakableStore:
    """A connection to the store that rejects every record with output."""
    store = made.new_store()
    commit_turn = store.commit_turn

    async def commit(tenant: str, commit: TurnCommit) -> Stamp:
        if commit.record.output_items != b"[]":
            raise InvalidRequest("'record.output_items' has more than 1 values.", field="record.output_items")
        stamp: Stamp = await commit_turn(tenant, commit)
        return stamp

    store.commit_turn = commit  # type: ignore[attr-defined]
    return store
