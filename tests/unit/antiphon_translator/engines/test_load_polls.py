from __future__ import annotations

import asyncio

import pytest

from antiphon_core.errors import EngineUnavailable
from antiphon_translator.engines.load_polls import IDLE_S, POLL_S, LoadPolls
from antiphon_translator.engines.replica_metrics import ReplicaMetrics
from tests.support.kv_fleet import virtual_time
from tests.support.kv_fleet.virtual_time import LoopClock


class Server:
    """Answers polls after `pauses` seconds, by endpoint; those of an endpoint without a pause fail."""

    def __init__(self, **pauses: float) -> None:
        self.pauses = pauses
        self.asked: list[tuple[str, float]] = []
        self.running = self.most_running = 0
        self.noted: list[tuple[str, ReplicaMetrics | None]] = []
        self.polls = LoadPolls(("a", "b"), self.fetch, lambda *noted: self.noted.append(noted), LoopClock())

    async def fetch(self, name: str) -> ReplicaMetrics:
        self.asked.append((name, LoopClock().monotonic()))
        if name not in self.pauses:
            raise EngineUnavailable("gone")
        if name == "a":
            self.running += 1
            self.most_running = max(self.most_running, self.running)
        await asyncio.sleep(self.pauses[name])
        self.running -= name == "a"
        return ReplicaMetrics(waiting=1)


def test_endpoints_are_polled_twice_a_second_while_generations_come() -> None:
    async def run() -> Server:
        server = Server(a=0.01)
        server.polls.wake()
        await asyncio.sleep(10)
        server.polls.wake()
        await asyncio.sleep(3 * IDLE_S)
        await server.polls.close()
        return server

    server = virtual_time.run(run())
    times = [at_s for name, at_s in server.asked if name == "a"]
    assert times[:3] == [0, POLL_S, 2 * POLL_S]
    assert times[-1] == pytest.approx(10 + IDLE_S, abs=POLL_S)
    assert set(server.noted) == {("a", ReplicaMetrics(waiting=1)), ("b", None)}


def test_slow_endpoint_has_one_poll_at_a_time_and_delays_no_other() -> None:
    async def run() -> Server:
        server = Server(a=5, b=0.01)
        server.polls.wake()
        await asyncio.sleep(10)
        await server.polls.close()
        assert not server.polls._polls
        return server

    server = virtual_time.run(run())
    assert server.most_running == 1
    assert [sum(name == each for name, _ in server.asked) for each in "ab"] == [2, 20]
