"""The number of transactions of an operation in the usual case, which is most of the store's latency."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from antiphon_core.ids import RandomIds
from antiphon_core.ports.event_logs import EventAppend, EventBatch
from antiphon_core.ports.jobs import Job, JobDraft, JobOutcome
from antiphon_core.ports.lineage import ForkSource
from antiphon_core.ports.quotas import Draw, QuotaRequest
from antiphon_core.ports.store import Fence, LogFrames, Precondition, Record, Status, TurnCommit, TurnJob, TurnRequest
from antiphon_store.service import StoreService
from antiphon_store.settings import StoreSettings
from antiphon_store.testing.conversations import new_id
from antiphon_store.testing.idempotency import keyed_request
from antiphon_store.testing.subject import draft, new_session_id, turn_in
from tests.support.rows import SpiedRows

T = "t"
SESSION, TALK = new_session_id(), new_id()
ROOT = draft(tag=SESSION, session_id=SESSION)
RUNNING = draft(ROOT, status=Status.IN_PROGRESS)
NEXT = draft(ROOT, session_id=SESSION)
APPEND = EventAppend(RUNNING.id, 0, 1, b"data: {}\n\n")
WHILE_RUNNING = Precondition(statuses=frozenset({Status.IN_PROGRESS}))
IN_TREE = f"conv_{ROOT.id[5:21]}{RandomIds().hex(32)}"


NO_FENCE = Fence(SESSION, 0)


@dataclass
class Scene:
    """A session with one turn, a running response with an open log, and the fence or job of a case."""

    store: StoreService
    bounded: StoreService
    fence: Fence = NO_FENCE
    job: Job | None = None

    async def set_up(self) -> None:
        begun = await self.store.begin_turn(T, turn_in(SESSION))
        await self.store.commit_turn(T, TurnCommit(ROOT, _fence(begun)))
        await self.store.put(T, RUNNING)
        await self.store.append_events(T, APPEND)
        await self.store.create_conversation(T, conversation_id=TALK)
        await self.store.enqueue_job(T, JobDraft(RUNNING.id, "q", b""))

    async def begin(self) -> None:
        self.fence = _fence(await self.store.begin_turn(T, turn_in(SESSION)))

    async def claim(self) -> None:
        self.job = await self.store.claim_job(T, ["q"], holder="h", lease_ttl_ms=1000)

    async def begin_once(self) -> None:
        start = await self.store.begin_turn(T, keyed_request(NEXT, session_id=SESSION, holder="h"))
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


async def events_of(store: StoreService, response_id: str) -> list[EventBatch]:
    return [batch async for batch in store.read_events(T, response_id)]


Step = Callable[[Scene], Awaitable[object]]


async def nothing(_scene: Scene) -> None:
    """No preparation."""


CASES: dict[str, tuple[Step, Step, int]] = {
    # preparation, counted step, number of transactions
    "begin from nothing": (nothing, lambda s: s.store.begin_turn(T, TurnRequest()), 1),
    "begin behind a response": (
        nothing,
        lambda s: s.store.begin_turn(T, TurnRequest(previous_response_id=ROOT.id)),
        1,
    ),
    "begin in a session": (nothing, lambda s: s.store.begin_turn(T, turn_in(SESSION)), 1),
    "begin in a session of any name": (nothing, lambda s: s.store.begin_turn(T, turn_in("any-name")), 1),
    "commit without a session": (nothing, lambda s: s.store.commit_turn(T, TurnCommit(draft(ROOT))), 1),
    "commit in a session": (Scene.begin, lambda s: s.store.commit_turn(T, TurnCommit(NEXT, s.fence)), 1),
    "commit with bounds": (
        Scene.begin,
        lambda s: s.bounded.commit_turn(T, TurnCommit(NEXT, s.fence, ttl_ms=9)),
        1,
    ),
    "commit over a status, with the end of the log": (
        nothing,
        lambda s: s.store.commit_turn(
            T,
            TurnCommit(
                completed(RUNNING),
                precondition=WHILE_RUNNING,
                log_frames=LogFrames(1, b"data: {}\n\n"),
            ),
        ),
        2,
    ),
    "commit under the fence of a job": (
        Scene.claim,
        lambda s: s.store.commit_turn(
            T, TurnCommit(completed(RUNNING), precondition=replace(WHILE_RUNNING, fence=s.job_fence))
        ),
        2,
    ),
    "commit under the fence of a job, which ends": (
        Scene.claim,
        lambda s: s.store.commit_turn(
            T, TurnCommit(completed(RUNNING), precondition=replace(WHILE_RUNNING, fence=s.job_fence), ends_job=True)
        ),
        2,
    ),
    "accept a turn for a worker": (
        Scene.begin,
        lambda s: s.store.commit_turn(
            T,
            TurnCommit(
                replace(NEXT, status=Status.QUEUED),
                precondition=Precondition(version=0, fence=s.fence),
                log_frames=LogFrames(0, b"data: {}\n\n"),
                job=TurnJob(b"", 5, 600_000),
            ),
        ),
        3,  # one for the turn, then two for the line of tenants
    ),
    "put": (nothing, lambda s: s.store.put(T, draft()), 1),
    "put with a parent": (nothing, lambda s: s.store.put(T, draft(ROOT)), 1),
    "put over a status": (nothing, lambda s: s.store.put(T, completed(RUNNING), precondition=WHILE_RUNNING), 2),
    "put over a version": (
        nothing,
        lambda s: s.store.put(T, completed(RUNNING), precondition=Precondition(version=1)),
        2,
    ),
    "get": (nothing, lambda s: s.store.get(T, ROOT.id), 1),
    "chain": (nothing, lambda s: s.store.chain(T, RUNNING.id), 1),
    "several of a tree": (nothing, lambda s: s.store.batch_get(T, [ROOT.id, RUNNING.id]), 1),
    "fork of a response": (nothing, lambda s: s.store.fork(T, ForkSource(None, ROOT.id), new_session_id=IN_TREE), 1),
    "fork of a response of a session": (
        nothing,
        lambda s: s.store.fork(T, ForkSource(SESSION, ROOT.id), new_session_id=IN_TREE),
        1,
    ),
    "append to a new log": (
        nothing,
        lambda s: s.store.append_events(T, replace(APPEND, response_id=ROOT.id)),
        1,
    ),
    "append under a job's fence": (
        Scene.claim,
        lambda s: s.store.append_events(T, replace(APPEND, expected_position=1), fence=s.job_fence),
        1,
    ),
    "append again": (nothing, lambda s: s.store.append_events(T, APPEND), 2),
    "read a log": (nothing, lambda s: events_of(s.store, RUNNING.id), 1),
    "acquire a lease": (nothing, lambda s: s.store.acquire_session(T, SESSION, holder="h", ttl_ms=1000), 1),
    "release a lease": (Scene.begin, lambda s: s.store.release_session(T, s.fence), 1),
    "renew a lease": (Scene.begin, lambda s: s.store.renew_session(T, s.fence, ttl_ms=1000), 2),
    "heartbeat of a job": (
        Scene.claim,
        lambda s: s.store.heartbeat_job(T, s.job_fence, lease_ttl_ms=1000),
        2,  # the lease is read, so that it is never shortened
    ),
    "settle a job": (
        Scene.claim,
        lambda s: s.store.settle_job(T, s.job_fence, JobOutcome.SUCCEEDED),
        2,
    ),
    "enqueue a job": (nothing, lambda s: s.store.enqueue_job(T, JobDraft(ROOT.id, "q", b"")), 1),
    "enqueue a job with a holder": (
        nothing,
        lambda s: s.store.enqueue_job(T, JobDraft(ROOT.id, "q", b"", holder="h")),
        1,
    ),
    "describe a job": (nothing, lambda s: s.store.describe_job(T, RUNNING.id), 1),
    "read a conversation": (nothing, lambda s: s.store.get_conversation(T, TALK), 1),
    "items of a conversation": (nothing, lambda s: s.store.list_conversation_items(T, TALK), 1),
    "begin under a key": (
        nothing,
        lambda s: s.store.begin_turn(T, keyed_request(NEXT, session_id=SESSION, holder="h")),
        2,
    ),
    "commit under a key without a claim": (
        nothing,
        lambda s: s.store.commit_turn(T, TurnCommit(draft(ROOT), idempotency_key="k")),
        2,
    ),
    "commit under a key": (
        Scene.begin_once,
        lambda s: s.store.commit_turn(T, TurnCommit(NEXT, s.fence, idempotency_key="k")),
        3,  # the claim's row is read, and extended
    ),
    "put under a key": (
        nothing,
        lambda s: s.store.put(T, draft(), idempotency_key="k"),
        3,  # the key, the record, the stamp
    ),
    "take_quota": (nothing, lambda s: s.store.take_quota(T, QuotaRequest([Draw("requests", 1, 1, 9, 9)])), 2),
}


@pytest.mark.parametrize("case", CASES)
async def test_an_operation_takes_its_number_of_transactions(case: str, rows: SpiedRows) -> None:
    before, step, transactions = CASES[case]
    any_number = StoreSettings(jobs_per_tenant=0)  # with a limit, open jobs would be counted
    scene = Scene(StoreService(rows, any_number), StoreService(rows, StoreSettings(max_session_responses=9)))
    await scene.set_up()
    await before(scene)
    rows.forget_calls()
    await step(scene)
    assert rows.calls == ["transact"] * transactions


README = Path(__file__).parents[4] / "services/store/README.md"
PART = re.compile(r"(<!-- round trips: .*? -->\n\n).*?(<!-- end of round trips -->)", re.DOTALL)


def with_table(readme: str) -> str:
    """The README of the store with the table of these cases."""
    names: dict[int, list[str]] = {}
    for name, (_before, _step, transactions) in CASES.items():
        names.setdefault(transactions, []).append(name)
    lines = ["| round trips | operations |", "|---|---|"]
    lines += [f"| {count} | {'; '.join(names[count])} |" for count in sorted(names)]
    return PART.sub(lambda found: f"{found[1]}{chr(10).join(lines)}\n\n{found[2]}", readme)


def test_the_readme_has_these_round_trips() -> None:
    readme = README.read_text(encoding="utf-8")
    assert PART.search(readme)
    assert readme == with_table(readme), "run `make docs`"


if __name__ == "__main__":
    README.write_text(with_table(README.read_text(encoding="utf-8")), encoding="utf-8")
