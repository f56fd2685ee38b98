"""An edge's turns over a real store and a real translator, with a model whose output a test sets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any

from antiphon_core import events, response
from antiphon_core.clock import ManualClock
from antiphon_core.flow import Flow
from antiphon_core.jsons import Object, dumps, loads
from antiphon_core.ports.store import Stamp, TurnCommit
from antiphon_core.ports.translator import Batch
from antiphon_core.request.body import CreateRequest
from antiphon_edge.quotas.metering import Meter
from antiphon_edge.sealed.sealing import Sealer
from antiphon_edge.turns.accepted_turn import AcceptedTurn
from antiphon_edge.turns.leases import RenewalPace
from antiphon_edge.turns.turn_runner import TurnRun
from antiphon_edge.turns.turn_timing import TurnTiming
from antiphon_edge.turns.turn_watch import Delivery
from antiphon_store.backends.memory import MemoryRows
from antiphon_store.service import StoreService
from antiphon_store.testing.faulty import FaultyStore
from tests.support.pushed import pulled
from tests.support.thinking_edges import LosableTranslator, PausableEngine, losable
from tests.support.translators import ScriptedTranslator
from tests.support.turn_services import turn_service

TENANT = "t"
TIMING = TurnTiming(linger_s=0)
FAST = RenewalPace(every_s=0.01, retry_s=0.01)
SAID = ("<think>", "Hm.", "</think>", "Hello there.")


def request_of(**members: Any) -> CreateRequest:
    return CreateRequest.parse(dumps({"model": "m", "input": "hi"} | members))


class SlowCommits:
    """A store whose commits wait for `go`."""

    def __init__(self, store: StoreService) -> None:
        self._store = store
        self.go = asyncio.Event()
        self.go.set()
        self.asked = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def commit_turn(self, tenant: str, commit: TurnCommit) -> Stamp:
        self.asked.set()
        await self.go.wait()
        return await self._store.commit_turn(tenant, commit)


class Bench:
    """An edge over a real store and a real translator."""

    def __init__(self, translator: LosableTranslator | ScriptedTranslator | None = None) -> None:
        self.clock = ManualClock()
        self.backend = FaultyStore(StoreService(MemoryRows(self.clock)))
        self.store = self.backend
        self.slow = SlowCommits(self.store)
        self.engine = PausableEngine(*SAID)
        self.translator = translator or losable(self.engine)
        self.charged: list[tuple[str, int]] = []
        self.sent: list[Batch] = []
        self.sealer = Sealer.of(None, ttl_s=10, clock=self.clock)
        self.use(TIMING)

    def use(self, timing: TurnTiming) -> None:
        """Replaces the edge by one with this timing."""
        slow: Any = self.slow
        self.turns = turn_service(
            slow,
            self.translator,
            clock=self.clock,
            sealer=self.sealer,
            meter=Meter(lambda tenant, tokens: self.charged.append((tenant, tokens))),
            timing=timing,
        )
        self.starter = self.turns._starter
        self.keyed_turns = self.turns._keyed_turns
        self.jobs = self.turns._jobs

    async def begin(self, *, session_id: str | None = None, key: str | None = None, **members: Any) -> AcceptedTurn:
        accepted = await self.starter.begin(TENANT, request_of(**members), session_id=session_id, key=key)
        assert isinstance(accepted, AcceptedTurn)
        if key is None:
            return accepted
        held = await self.keyed_turns.enqueue(accepted)
        assert held is not None
        return held

    async def until_it_pauses(self) -> None:
        async with asyncio.timeout(30):
            await self.engine.paused.wait()

    def run(self, accepted: AcceptedTurn, **options: Any) -> AsyncGenerator[Batch, None]:
        """Returns a generator of the batches of a turn. Closing it is the caller's disconnection, or the edge's stop
        for a keyed turn."""

        async def run(take: Callable[[Batch], object]) -> None:
            def receive(batch: Batch) -> None:
                self.sent.append(batch)
                take(batch)

            if accepted.key is None:
                await self.turns.run(TurnRun(accepted, receive, **options))
            else:
                await self.keyed_turns._run(TurnRun(accepted, receive, delivery=Delivery.KEYED))

        return pulled(run)

    def detached(self, accepted: AcceptedTurn) -> AsyncGenerator[Batch, None]:
        """Returns a generator of the batches of a keyed turn. Closing it is the caller's disconnection."""

        async def run(take: Callable[[Batch], object]) -> None:
            def receive(batch: Batch) -> None:
                take(batch)

            await self.keyed_turns.run(accepted, receive, Flow())

        return pulled(run)

    async def play(self, accepted: AcceptedTurn, **options: Any) -> list[Object]:
        batches = self.run(accepted, **options)
        return [event async for batch in batches for event in events.decode(batch.frames)]

    async def logged(self, accepted: AcceptedTurn) -> list[Object]:
        log = self.store.read_events(TENANT, accepted.response_id)
        return [event async for batch in log for event in events.decode(batch.frames)]

    async def stored(self, accepted: AcceptedTurn) -> Object:
        record = await self.store.get(TENANT, accepted.response_id)
        answer: Object = loads(response.join(record.body, record.output_items))
        return answer

    async def settle(self) -> None:
        await self.turns.settle()
