"""Compares each backend with memory: any sequence of job operations must have equal answers and errors.

Jobs that become claimable in the same millisecond have no order. So each operation gets its own millisecond of the
second, and all periods are whole seconds: no two jobs become claimable together.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, TypeVar, cast
from unittest import TestCase

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, precondition, rule

from antiphon_core.clock import ManualClock
from antiphon_core.errors import AntiphonError
from antiphon_core.ids import RandomIds, new_response_id
from antiphon_core.ports.jobs import Job, JobDraft, JobOutcome
from antiphon_core.ports.store import Fence, Precondition
from antiphon_store.backends.memory import MemoryRows
from antiphon_store.service import StoreService
from antiphon_store.settings import StoreSettings
from antiphon_store.testing.subject import draft
from tests.contract.store.conftest import title_of
from tests.contract.store.implementations import BACKENDS
from tests.support.volume import volume

T = TypeVar("T")

SECOND_MS = 1000
RETENTION_S = 3
QUEUES = ("q", "r")

periods = st.sampled_from((SECOND_MS, 3 * SECOND_MS, 5 * SECOND_MS))
delays = st.sampled_from((0, 0, 0, SECOND_MS))
reasons = st.sampled_from(("", "ü"))
ahead = st.sampled_from((0, 0, 0, 1))  # 0: the granted token; 1: the token of the next attempt
some_queues = st.sampled_from((("q",), ("q", "r"), ("r", "q", "r")))


class JobMachine(RuleBasedStateMachine):
    """Makes each call on memory and on another backend, and compares the outcomes. The calls on the latter alternate
    between its two stores."""

    backend: ClassVar[str]
    clock: ClassVar[ManualClock]
    folder: ClassVar[TemporaryDirectory[str]]
    runner: ClassVar[asyncio.Runner]
    model: ClassVar[StoreService]
    replicas: ClassVar[list[StoreService]]
    jobs = Bundle("jobs")
    fences = Bundle("fences")
    settlements = Bundle("settlements")

    def __init__(self) -> None:
        super().__init__()
        self.tenant = f"tenant-{secrets.token_hex(4)}"
        self.began_at_ms, self.moments = self.clock.now_ms(), 0
        self.pair = list(self.replicas)
        self.known: list[str] = []
        self.lease_ends: list[int] = []

    @classmethod
    def open(cls) -> None:
        """Opens all stores once for all sequences. Each sequence has its own tenant."""
        cls.clock = ManualClock()
        cls.folder, cls.runner = TemporaryDirectory(), asyncio.Runner()
        remembers = StoreSettings(job_ttl_s=RETENTION_S)
        cls.model = StoreService(MemoryRows(cls.clock), remembers)
        pair = BACKENDS[cls.backend].open_pair(cls.clock, Path(cls.folder.name))
        cls.replicas = [StoreService(rows, remembers) for rows in pair]
        for store in (cls.model, *cls.replicas):
            cls.run(store.open())

    @classmethod
    def close(cls) -> None:
        for store in cls.replicas:
            cls.run(store.close())
        cls.runner.close()
        cls.folder.cleanup()

    @classmethod
    def run(cls, work: Coroutine[Any, Any, T]) -> T:
        """Replaces `Runner.run`, which sets a signal handler each time: that takes longer than most calls."""
        return cls.runner.get_loop().run_until_complete(work)

    def same(self, ask: Callable[[StoreService], Awaitable[Any]]) -> Any:
        self.pair.reverse()
        expected = self.run(_outcome(ask(self.model)))
        assert self.run(_outcome(ask(self.pair[0]))) == expected
        return expected

    def step(self, ask: Callable[[StoreService], Awaitable[Any]]) -> Any:
        """Runs an operation in its own millisecond. Seconds are counted from the start of the sequence, so that a
        sequence can be repeated at any time."""
        self.moments += 1
        elapsed_ms = self.clock.now_ms() - self.began_at_ms
        self.clock.advance((1 + (self.moments - elapsed_ms - 1) % SECOND_MS) / 1000)
        return self.same(ask)

    def enqueue(self, job: JobDraft) -> None:
        self.step(lambda store: store.enqueue_job(self.tenant, job))

    # ---- Jobs ----

    @rule(target=jobs, queue=st.sampled_from(QUEUES), most=st.integers(1, 3), after_ms=delays)
    def enqueue_new(self, queue: str, most: int, after_ms: int) -> JobDraft:
        job = JobDraft(new_response_id(RandomIds()), queue, b"\x00\xff", max_attempts=most, run_after_ms=after_ms)
        self.known.append(job.id)
        self.enqueue(job)
        return job

    @rule(job=jobs, queue=st.sampled_from(QUEUES), payload=st.sampled_from((b"\x00\xff", b"other")))
    def enqueue_again(self, job: JobDraft, queue: str, payload: bytes) -> None:
        self.enqueue(replace(job, queue=queue, payload=payload))

    @precondition(lambda self: self.known)
    @rule(target=fences, queues=some_queues, holder=st.sampled_from("abcd"), ttl_ms=periods)
    def claim(self, queues: tuple[str, ...], holder: str, ttl_ms: int) -> Any:
        job = self.step(lambda store: store.claim_job(self.tenant, queues, holder=holder, lease_ttl_ms=ttl_ms))[1]
        if not isinstance(job, Job):
            return multiple()
        self.lease_ends.append(job.lease_expires_at_ms)
        return job.fence

    @rule(fence=fences, ahead=ahead, ttl_ms=periods)
    def heartbeat(self, fence: Fence, ahead: int, ttl_ms: int) -> None:
        self.step(lambda store: store.heartbeat_job(self.tenant, _later(fence, ahead), lease_ttl_ms=ttl_ms))

    @rule(target=settlements, fence=fences, ahead=ahead, outcome=st.sampled_from(JobOutcome), reason=reasons)
    def settle(self, fence: Fence, ahead: int, outcome: JobOutcome, reason: str) -> tuple[Fence, JobOutcome]:
        fence = _later(fence, ahead)
        self.step(lambda store: store.settle_job(self.tenant, fence, outcome, reason=reason))
        return fence, outcome

    @rule(settlement=settlements, reason=reasons)
    def settle_again(self, settlement: tuple[Fence, JobOutcome], reason: str) -> None:
        self.step(lambda store: store.settle_job(self.tenant, *settlement, reason=reason))

    @rule(job=jobs)
    def cancel(self, job: JobDraft) -> None:
        self.step(lambda store: store.cancel_job(self.tenant, job.id))

    @rule(fence=fences, ahead=ahead)
    def write(self, fence: Fence, ahead: int) -> None:
        """Writes a record under a job's fence. The answer shows whether the fence is live."""
        record, condition = draft(tag=fence.session_id), Precondition(fence=_later(fence, ahead))
        self.step(lambda store: store.put(self.tenant, record, precondition=condition))

    # ---- Time ----

    @rule()
    def elapse(self) -> None:
        self.clock.advance(SECOND_MS / 1000)

    @rule()
    def reach_the_end_of_a_lease(self) -> None:
        ahead = [end_ms for end_ms in self.lease_ends if end_ms > self.clock.now_ms()]
        if ahead:
            self.clock.advance((min(ahead) - self.clock.now_ms()) / 1000)

    @invariant()
    def every_job_says_the_same(self) -> None:
        for job_id in self.known[-4:]:
            self.same(lambda store, id_=job_id: store.describe_job(self.tenant, id_))  # type: ignore[misc]


def _later(fence: Fence, ahead: int) -> Fence:
    return replace(fence, token=fence.token + ahead)


async def _outcome(answer: Awaitable[Any]) -> tuple[object, ...]:
    try:
        return ("answer", await answer)
    except AntiphonError as error:
        return ("error", type(error), error.message, error.facts)


def against_memory(backend: str) -> type[TestCase]:
    machine = cast("type[JobMachine]", type("Machine", (JobMachine,), {"backend": backend}))

    class AgainstMemory(machine.TestCase):  # type: ignore[misc, name-defined]
        settings = settings(max_examples=volume(6, 400), stateful_step_count=40, deadline=None, database=None)

        @classmethod
        def setUpClass(cls) -> None:
            machine.open()

        @classmethod
        def tearDownClass(cls) -> None:
            machine.close()

    return AgainstMemory


for _name in BACKENDS:
    if _name != "memory":
        globals()[f"Test{title_of(_name)}AgainstMemory"] = against_memory(_name)
