"""How many primitives an operation takes in the usual case. A store's latency is little else."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from antiphon_core.ids import RandomIds
from antiphon_core.ports.event_logs import EventAppend
from antiphon_core.ports.jobs import Job, JobDraft, JobOutcome
from antiphon_core.ports.lineage import ForkSource
from antiphon_core.ports.spending import Draw, Spend
from antiphon_core.ports.store import Fence, Precondition, Record, Status, TurnRequest
from antiphon_store.engine.store_engine import StoreEngine
from antiphon_store.testing.conversations import new_id
from antiphon_store.testing.idempotency import keyed
from antiphon_store.testing.subject import draft, new_session_id, turn_in
from antiphon_store.values import Founding, LogEnd, QueuedJob, Write
from tests.support.rows import SpiedRows

T = "t"
SESSION, TALK = new_session_id(), new_id()
ROOT = draft(tag=SESSION, session_id=SESSION)
RUNNING = draft(ROOT, status=Status.IN_PROGRESS)
NEXT = draft(ROOT, session_id=SESSION)
KEY = {"key": "k"}
APPEND = EventAppend(RUNNING.id, 0, 1, b"data: {}\n\n")
WHILE_RUNNING = Precondition(statuses=frozenset({Status.IN_PROGRESS}))
IN_TREE = f"conv_{ROOT.id[5:21]}{RandomIds().hex(32)}"


NO_FENCE = Fence(SESSION, 0)


@dataclass
class Scene:
    """A session with one turn, one running response with an open log, and what a case needs besides."""

    engine: StoreEngine
    fence: Fence = NO_FENCE
    job: Job | None = None

    async def set_up(self) -> None:
        begun = await self.engine.begin_turn(T, turn_in(SESSION))
        await self.engine.commit_turn(T, Write(ROOT), _fence(begun))
        await self.engine.put(T, Write(RUNNING))
        await self.engine.append_events(T, APPEND, fence=None, ttl_ms=1000)
        await self.engine.create_conversation(T, TALK, Founding(b"{}", "o", "i"))
        await self.engine.enqueue_job(T, JobDraft(RUNNING.id, "q", b""), retention_ms=1000)

    async def begin(self) -> None:
        self.fence = _fence(await self.engine.begin_turn(T, turn_in(SESSION)))

    async def claim(self) -> None:
        self.job = await self.engine.claim_job(T, ["q"], holder="h", lease_ttl_ms=1000)

    async def begin_once(self) -> None:
        start = await self.engine.begin_turn(T, keyed(NEXT, session_id=SESSION, holder="h"), claim_ttl_ms=1000)
        self.fence = _fence(start)

    @property
    def job_fence(self) -> Fence:
        assert self.job is not None
        return self.job.fence


def _fence(start: Any) -> Fence:
    assert start.lease is not None
    found: Fence = start.lease.fence
    return found


def completed(record: Record) -> Record:
    return replace(record, status=Status.COMPLETED, output_items=b"[]")


Step = Callable[[Scene], Awaitable[object]]


async def nothing(_scene: Scene) -> None:
    """Before a case that needs nothing."""


CASES: dict[str, tuple[Step, Step, int]] = {
    # what happens before, what is counted, how many transactions
    "begin from nothing": (nothing, lambda s: s.engine.begin_turn(T, TurnRequest()), 1),
    "begin behind a response": (
        nothing,
        lambda s: s.engine.begin_turn(T, TurnRequest(previous_response_id=ROOT.id)),
        1,
    ),
    "begin in a session": (nothing, lambda s: s.engine.begin_turn(T, turn_in(SESSION)), 1),
    "begin in a session of any name": (nothing, lambda s: s.engine.begin_turn(T, turn_in("any-name")), 1),
    "commit without a session": (nothing, lambda s: s.engine.commit_turn(T, Write(draft(ROOT)), None), 1),
    "commit in a session": (Scene.begin, lambda s: s.engine.commit_turn(T, Write(NEXT), s.fence), 1),
    "commit with bounds": (
        Scene.begin,
        lambda s: s.engine.commit_turn(T, Write(NEXT, ttl_ms=9, item_ids=("a",), session_responses_max=9), s.fence),
        1,
    ),
    "commit over a status, with the end of the log": (
        nothing,
        lambda s: s.engine.commit_turn(
            T,
            Write(
                completed(RUNNING),
                WHILE_RUNNING,
                log_end=LogEnd(EventAppend(RUNNING.id, 1, 1, b"data: {}\n\n", terminal=True), 1000),
            ),
            None,
        ),
        2,
    ),
    "commit under the fence of a job": (
        Scene.claim,
        lambda s: s.engine.commit_turn(T, Write(completed(RUNNING), replace(WHILE_RUNNING, fence=s.job_fence)), None),
        2,
    ),
    "accept a turn for a worker": (
        Scene.begin,
        lambda s: s.engine.commit_turn(
            T,
            Write(
                replace(NEXT, status=Status.QUEUED),
                Precondition(version=0, fence=s.fence),
                log_end=LogEnd(EventAppend(NEXT.id, 0, 1, b"data: {}\n\n"), 1000),
                job=QueuedJob(JobDraft(NEXT.id, "q", b""), 1000, 600_000),
            ),
            None,
        ),
        1,
    ),
    "tell workers of a job": (nothing, lambda s: s.engine.hand_in(T), 2),
    "put": (nothing, lambda s: s.engine.put(T, Write(draft())), 1),
    "put with a parent": (nothing, lambda s: s.engine.put(T, Write(draft(ROOT))), 1),
    "put over a status": (nothing, lambda s: s.engine.put(T, Write(completed(RUNNING), WHILE_RUNNING)), 2),
    "put over a version": (
        nothing,
        lambda s: s.engine.put(T, Write(completed(RUNNING), Precondition(version=1))),
        2,
    ),
    "fetch": (nothing, lambda s: s.engine.fetch(T, ROOT.id), 1),
    "ancestry": (nothing, lambda s: s.engine.ancestry(T, RUNNING.id, max_depth=9, max_bytes=9999), 1),
    "fetch many of a tree": (nothing, lambda s: s.engine.fetch_many(T, [ROOT.id, RUNNING.id], max_bytes=9999), 1),
    "fork of a response": (nothing, lambda s: s.engine.fork(T, ForkSource(None, ROOT.id), IN_TREE), 1),
    "fork of a response of a session": (
        nothing,
        lambda s: s.engine.fork(T, ForkSource(SESSION, ROOT.id), IN_TREE),
        1,
    ),
    "append to a new log": (
        nothing,
        lambda s: s.engine.append_events(T, replace(APPEND, response_id=ROOT.id), fence=None, ttl_ms=1000),
        1,
    ),
    "append under a job's fence": (
        Scene.claim,
        lambda s: s.engine.append_events(T, replace(APPEND, expected_position=1), fence=s.job_fence, ttl_ms=1000),
        1,
    ),
    "append again": (nothing, lambda s: s.engine.append_events(T, APPEND, fence=None, ttl_ms=1000), 2),
    "read a log": (nothing, lambda s: s.engine.read_log(T, RUNNING.id, position=0, max_bytes=9999), 1),
    "acquire a lease": (nothing, lambda s: s.engine.acquire_lease(T, SESSION, holder="h", ttl_ms=1000), 1),
    "release a lease": (Scene.begin, lambda s: s.engine.release_lease(T, s.fence), 1),
    "renew a lease": (Scene.begin, lambda s: s.engine.renew_lease(T, s.fence, ttl_ms=1000), 2),
    "heartbeat of a job": (
        Scene.claim,
        lambda s: s.engine.heartbeat_job(T, s.job_fence, lease_ttl_ms=1000),
        2,  # the lease is read, so that it is never shortened
    ),
    "settle a job": (
        Scene.claim,
        lambda s: s.engine.settle_job(T, s.job_fence, JobOutcome.SUCCEEDED, ""),
        2,
    ),
    "enqueue a job": (nothing, lambda s: s.engine.enqueue_job(T, JobDraft(ROOT.id, "q", b""), retention_ms=1), 1),
    "describe a job": (nothing, lambda s: s.engine.describe_job(T, RUNNING.id), 1),
    "read a conversation": (nothing, lambda s: s.engine.fetch_conversation(T, TALK), 1),
    "items of a conversation": (nothing, lambda s: s.engine.conversation_items(T, TALK), 1),
    "begin under a key": (
        nothing,
        lambda s: s.engine.begin_turn(T, keyed(NEXT, session_id=SESSION, holder="h"), claim_ttl_ms=1000),
        2,
    ),
    "commit under a key without a claim": (
        nothing,
        lambda s: s.engine.commit_turn(T, Write(draft(ROOT)), None, **KEY),
        2,
    ),
    "commit under a key": (
        Scene.begin_once,
        lambda s: s.engine.commit_turn(T, Write(NEXT), s.fence, **KEY),
        3,  # the claim's row is read, and extended
    ),
    "put under a key": (
        nothing,
        lambda s: s.engine.put(T, Write(draft()), key="k"),
        3,  # the key, the record, the stamp
    ),
    "spend": (nothing, lambda s: s.engine.spend(T, Spend([Draw("requests", 1, 1, 9, 9)])), 2),
}


@pytest.mark.parametrize("case", CASES)
async def test_round_trips(case: str, engine: StoreEngine, rows: SpiedRows) -> None:
    before, step, transactions = CASES[case]
    scene = Scene(engine)
    await scene.set_up()
    await before(scene)
    rows.forget_calls()
    await step(scene)
    assert rows.calls == ["transact"] * transactions
