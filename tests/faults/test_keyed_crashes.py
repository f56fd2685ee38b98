"""The edge of a keyed turn dies at each of its calls of the store, or loses the answer; the client asks another edge.

Generations are counted: one begins from nothing, and a second one only where nothing of the first was logged.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pytest

from antiphon_core import events, response
from antiphon_core.clock import ManualClock
from antiphon_core.errors import LogNotFound, StoreUnavailable
from antiphon_core.jsons import Object, dumps, loads
from antiphon_core.request.body import CreateRequest
from antiphon_edge.turns.leases import RenewalPace
from antiphon_edge.turns.turn_service import TurnService
from antiphon_edge.turns.turn_timing import JOB_LEASE_MS, TurnTiming
from antiphon_store.backends.registry import row_backend
from antiphon_store.service import StoreService
from tests.support.prompts import ids_in
from tests.support.thinking_edges import PausableEngine, losable
from tests.support.turn_services import turn_service
from tests.support.turn_streams import sent
from tests.support.waiting import WAIT_MAX_S

TENANT = "t"
STEP_S = 0.02
"""Between two advances of the clock. An edge that is alive renews its lease several times meanwhile."""
PACE = RenewalPace(every_s=STEP_S / 4, retry_s=STEP_S / 4)
TIMING = TurnTiming(linger_s=0, silence_s=0.02, stale_key_s=0.2, job_pace=PACE)
NO_RENEWALS = replace(TIMING, job_pace=RenewalPace(every_s=WAIT_MAX_S, retry_s=WAIT_MAX_S))
CALLS = 10
"""Calls of the store in the turn below, at least, without renewals of the lease."""
PAUSE_AT = 2
ITERATIONS = 500
"""Of the event loop: more than an edge needs to react to a fault, over a store in memory."""


@dataclass
class FaultyLine:
    """An edge's connection to the store, with one fault at the call number `at`."""

    store: StoreService
    at: int
    is_executed: bool
    """Whether the call is executed before its answer is lost."""
    dies: bool
    """Whether no later call gets through."""
    calls: list[str] = field(default_factory=list)
    has_failed: asyncio.Event = field(default_factory=asyncio.Event)
    is_heard: asyncio.Event | None = None
    """When the edge hears of the fault; None: at once."""

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.store, name)
        if self.dies and self.has_failed.is_set():
            raise StoreUnavailable("The edge is dead.")
        return partial(self._call, name, method) if inspect.iscoroutinefunction(method) else method

    async def _call(self, name: str, method: Any, *arguments: Any, **options: Any) -> Any:
        if self.dies and self.has_failed.is_set():
            raise StoreUnavailable("The edge is dead.")
        if name == "heartbeat_job":
            return await method(*arguments, **options)
        self.calls.append(name)
        if len(self.calls) != self.at + 1:
            return await method(*arguments, **options)
        if self.is_executed:
            await method(*arguments, **options)
        self.has_failed.set()
        if self.is_heard is not None:
            await self.is_heard.wait()
        raise StoreUnavailable(f"The answer of {name} is lost.")


@dataclass
class System:
    store: StoreService
    clock: ManualClock
    engine: PausableEngine
    faulty: TurnService
    healthy: TurnService
    line: FaultyLine

    async def from_nothing(self) -> int:
        """The number of generations that did not continue an earlier one."""
        prompt = min(len(ids_in(request)) for request in self.engine.requests)
        return sum(len(ids_in(request)) == prompt for request in self.engine.requests)

    async def has_logged_output(self) -> bool:
        """Whether any token of the turn is in its event log."""
        for response_id in {request.request_id for request in self.engine.requests}:
            try:
                async for batch in self.store.read_events(TENANT, response_id):
                    if batch.checkpoints:
                        return True
            except LogNotFound:
                continue
        return False

    async def advance_time(self) -> None:
        """Lets leases expire while a request waits for them."""
        while True:
            await asyncio.sleep(STEP_S)
            self.clock.advance(JOB_LEASE_MS / 4_000)


@asynccontextmanager
async def system(at: int, *, is_executed: bool, dies: bool, timing: TurnTiming = TIMING) -> AsyncIterator[System]:
    """`timing` is that of the edge with the fault."""
    clock = ManualClock()
    backend = row_backend("memory://", clock=clock)
    store = StoreService(backend)
    line = FaultyLine(store, at, is_executed, dies)
    engine = PausableEngine("<think>", "Hm.", "</think>", "Hello there.")
    reached: Any = line
    await backend.open()
    faulty = turn_service(reached, losable(engine), clock=clock, timing=timing)
    healthy = turn_service(store, losable(engine), clock=clock, timing=TIMING)
    yield System(store, clock, engine, faulty, healthy, line)
    for each in (faulty, healthy):
        await each.settle()
    await backend.close()


async def ask(turns: TurnService) -> list[Object]:
    request = CreateRequest.parse(dumps({"model": "m", "input": "hi"}))
    return [event async for batch in sent(turns, TENANT, request, key="k") for event in events.decode(batch.frames)]


@pytest.mark.parametrize("dies", [True, False], ids=["dies", "goes on"])
@pytest.mark.parametrize("is_executed", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", range(CALLS))
async def test_turn_of_an_edge_that_dies_at_a_call_is_generated_once(at: int, is_executed: bool, dies: bool) -> None:
    async with system(at, is_executed=is_executed, dies=dies) as running, asyncio.timeout(WAIT_MAX_S):
        first = asyncio.ensure_future(ask(running.faulty))
        await running.line.has_failed.wait()
        had_output = await running.has_logged_output()
        passing = asyncio.ensure_future(running.advance_time())
        again = [*await asyncio.gather(ask(running.healthy), ask(running.healthy))]
        await asyncio.gather(first, return_exceptions=True)
        again.append(await ask(running.healthy))
        passing.cancel()
        ended = again[0][-1]
        assert ended["type"] == events.COMPLETED
        assert again == [again[0]] * 3
        record = await running.store.get(TENANT, ended["response"]["id"])
        assert ended["response"] == loads(response.join(record.body, record.output_items))
        assert await running.from_nothing() <= (1 if had_output or not dies else 2), running.line.calls[at]


@pytest.mark.parametrize("is_executed", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", range(CALLS))
async def test_edge_that_hears_of_a_fault_late_leaves_the_turn_to_the_edge_that_runs_it(
    at: int, is_executed: bool
) -> None:
    """The client asks another edge meanwhile, which is in the middle of the answer when the first edge gives up."""
    faulty = system(at, is_executed=is_executed, dies=False, timing=NO_RENEWALS)
    async with faulty as running, asyncio.timeout(WAIT_MAX_S):
        running.line.is_heard = asyncio.Event()
        first = asyncio.ensure_future(ask(running.faulty))
        await running.line.has_failed.wait()
        had_output, had_begun = await running.has_logged_output(), bool(running.engine.requests)
        running.engine.pause_at = PAUSE_AT
        passing = asyncio.ensure_future(running.advance_time())
        second = asyncio.ensure_future(ask(running.healthy))
        paused = asyncio.ensure_future(running.engine.paused.wait())
        await asyncio.wait([second, paused], return_when=asyncio.FIRST_COMPLETED)
        passing.cancel()
        running.line.is_heard.set()
        for _ in range(ITERATIONS):
            await asyncio.sleep(0)
        third = asyncio.ensure_future(ask(running.healthy))
        for _ in range(ITERATIONS):
            await asyncio.sleep(0)
        running.engine.go.set()
        answers = [*await asyncio.gather(second, third)]
        await asyncio.gather(first, return_exceptions=True)
        answers.append(await ask(running.healthy))
        paused.cancel()
        assert answers[0][-1]["type"] == events.COMPLETED
        assert answers == [answers[0]] * 3
        assert await running.from_nothing() <= (2 if had_begun and not had_output else 1), running.line.calls[at]
