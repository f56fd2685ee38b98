"""Requests under idempotency keys on three edges, over several databases of the store and through gRPC."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from antiphon_core.clock import Clock, ManualClock, SystemClock
from antiphon_core.errors import StoreUnavailable
from antiphon_core.fold import fold
from antiphon_core.ids import RandomIds
from antiphon_core.jsons import Object
from antiphon_core.ports.full_store import FullStore
from antiphon_core.retrying import STORE as POLICIES
from antiphon_core.retrying import Retry, RetryPolicy
from antiphon_edge import server
from antiphon_edge.store_calls import retrying
from antiphon_edge.turns.turn_timing import JOB_LEASE_MS
from antiphon_store.backends.registry import row_backend
from antiphon_store.backends.sqlite.backend import SqliteRows
from antiphon_store.client import StoreClient
from antiphon_store.rows.backend import RowBackend
from tests.support.http import Answer, Http
from tests.support.in_process import running, store_endpoint
from tests.support.redis_servers import redis_rows, shared_redis
from tests.support.thinking_edges import PausableEngine, losable
from tests.support.waiting import until

KEYS = 8
EDGES = 3
AWAY = RetryPolicy(for_s=2.0)
"""A short retry policy: an edge with a cut connection soon abandons its turn. Outages that a turn survives are
shorter."""


class Line:
    """An edge's connection to the store. A test cuts it to let the edge die without releasing anything."""

    def __init__(self, store: FullStore) -> None:
        self._store = store
        self.is_cut = False
        self.rejected = 0
        """The calls on the cut line."""
        self.calls = Counter[str]()

    def __getattr__(self, name: str) -> Any:
        if self.is_cut:
            self.rejected += 1
            raise StoreUnavailable("the line is cut")
        self.calls[name] += 1
        return getattr(self._store, name)


class Replicas:
    def __init__(self) -> None:
        self.https: list[Http] = []
        self.lines: list[Line] = []
        self.engines: list[PausableEngine] = []
        self.clock = ManualClock()
        """The clock of the store. Leases expire only where a test says so, however busy the machine is."""

    async def add(self, life: AsyncExitStack, store: FullStore, session: aiohttp.ClientSession) -> None:
        engine, line = PausableEngine("<think>", "Hm.", "</think>", "Hello there."), Line(store)
        reached: Any = line
        system = await life.enter_async_context(running(translator=losable(engine, SystemClock()), store=reached))
        self.https.append(Http(session, system.url))
        self.lines.append(line)
        self.engines.append(engine)

    async def ask(self, number: int, key: str, **members: Any) -> Answer:
        body = {"model": "m", "input": f"hi {key}"} | members
        http = self.https[number % EDGES]
        return await http.ask("POST", "/v1/responses", body, headers={"Idempotency-Key": key})

    @property
    def generations(self) -> Counter[str]:
        """How often each response was generated."""
        return Counter(request.request_id for engine in self.engines for request in engine.requests)


def backends(name: str, folder: Path, clock: Clock) -> RowBackend:
    if name == "redis":
        return redis_rows(shared_redis().url, clock=clock)
    if name == "sqlite":
        return SqliteRows(folder / "store.db", clock=clock)
    return row_backend("memory://", clock=clock)


@pytest.fixture(params=["memory", "sqlite", "redis"])
async def replicas(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Replicas]:
    """Each edge has its own connection to one store server."""
    monkeypatch.setattr(server, "retrying", partial(retrying, policies={**POLICIES, Retry.KEEP: AWAY}))
    made = Replicas()
    async with AsyncExitStack() as life:
        endpoint = await life.enter_async_context(store_endpoint(backends(request.param, tmp_path, made.clock)))
        session = await life.enter_async_context(aiohttp.ClientSession())  # its connections are a limit for all edges
        for _ in range(EDGES):
            await made.add(life, await life.enter_async_context(StoreClient(endpoint)), session)
        yield made


async def test_requests_under_one_key_on_many_edges_generate_once(replicas: Replicas) -> None:
    prefix = RandomIds().hex(8)
    asked = [(n, f"{prefix}-{k}") for k in range(KEYS) for n in range(32)]
    answers = await asyncio.gather(*(replicas.ask(n, key) for n, key in asked))
    assert {answer.status for answer in answers} == {200}
    said: dict[str, set[bytes]] = {}
    for (_, key), answer in zip(asked, answers, strict=True):
        said.setdefault(key, set()).add(answer.body)
    assert all(len(bodies) == 1 for bodies in said.values())
    assert sorted(replicas.generations.values()) == [1] * KEYS


async def test_when_an_edge_dies_its_turns_go_on_elsewhere(replicas: Replicas) -> None:
    key = RandomIds().hex(8)
    dying = replicas.engines[0]
    dying.pause_at = 9
    lost = asyncio.create_task(replicas.ask(0, key, stream=True))
    await dying.paused.wait()
    readers = [asyncio.create_task(replicas.ask(n, key, stream=True)) for n in (1, 2, 1, 2)]
    followers = replicas.lines[1:]
    await until(lambda: all(line.calls["read_events"] for line in followers), "both edges follow the event log")
    replicas.lines[0].is_cut = True
    replicas.clock.advance(JOB_LEASE_MS / 1000)
    logs: list[list[Object]] = [answer.events for answer in await asyncio.gather(*readers)]
    assert all(log == logs[0] for log in logs)
    assert [event["sequence_number"] for event in logs[0]] == list(range(len(logs[0])))
    ended = logs[0][-1]["response"]
    assert (ended["status"], ended["output"][-1]["content"][0]["text"]) == ("completed", "Hello there.")
    assert fold(logs[0]) == ended == (await replicas.https[1].get(f"/v1/responses/{ended['id']}")).json
    assert replicas.generations == {ended["id"]: 2}
    dying.go.set()
    assert (await lost).events[-1]["response"]["status"] == "failed"
    assert (await replicas.https[1].get(f"/v1/responses/{ended['id']}")).json == ended


async def test_a_store_that_was_away_for_longer_than_a_lease_ends_no_turn(replicas: Replicas) -> None:
    key, said = RandomIds().hex(8), replicas.engines[0]
    said.pause_at = 9
    asked = asyncio.create_task(replicas.ask(0, key, stream=True))
    await said.paused.wait()
    replicas.lines[0].is_cut = True
    replicas.clock.advance(JOB_LEASE_MS / 1000)
    said.go.set()  # the model generates the rest during the outage
    await until(lambda: replicas.lines[0].rejected > 0, "the edge notices the outage")
    replicas.lines[0].is_cut = False
    log = (await asked).events
    assert [event["sequence_number"] for event in log] == list(range(len(log)))
    ended = log[-1]["response"]
    assert (ended["status"], ended["output"][-1]["content"][0]["text"]) == ("completed", "Hello there.")
    assert (await replicas.https[1].get(f"/v1/responses/{ended['id']}")).json == ended == fold(log)
    assert (await replicas.ask(1, key, stream=True)).events == log
    assert replicas.generations == {ended["id"]: 1}
