"""A store whose disk or memory is full rejects turns before a model generates output that cannot be stored. Reads,
deletes and sweeps continue, and turns are stored again as soon as there is room."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import psycopg
import pytest

from antiphon_core.clock import SystemClock
from antiphon_core.retrying import STORE, Retry, RetryPolicy
from antiphon_edge import server
from antiphon_edge.store_calls import retrying
from antiphon_store.client import StoreClient
from tests.support.http import Answer, Http, RetryingHttp
from tests.support.in_process import running
from tests.support.postgres_server import owner, postgres_server
from tests.support.redis_servers import SAFE, redis_server
from tests.support.small_disk import small_disk
from tests.support.system import Command, serve
from tests.support.thinking_edges import PausableEngine, losable
from tests.support.waiting import WAIT_MAX_S

LONG = "word " * 5_000
DISK_BYTES = 16 * 2**20
REDIS_SHORT_BYTES = 2**18
"""The bytes by which a full Redis exceeds its limit: more than its usage varies, and less than the deletes free."""


class Medium(Protocol):
    """The storage of a store's rows."""

    url: str
    prefix: tuple[str, ...]

    def fill(self) -> None: ...

    def clear(self) -> None: ...


@dataclass
class SomeMedium:
    url: str
    prefix: tuple[str, ...]
    fill: Callable[[], None]
    clear: Callable[[], None]


def sqlite_medium(life: ExitStack) -> Medium:
    disk = life.enter_context(small_disk(DISK_BYTES))
    return SomeMedium(f"sqlite:///{disk.folder / 'store.db'}", tuple(disk.inside), disk.fill, disk.clear)


def postgres_medium(life: ExitStack) -> Medium:
    """The tables are on the small disk. The log of the server is elsewhere."""
    disk = life.enter_context(small_disk(2 * DISK_BYTES))
    server = life.enter_context(postgres_server(disk.inside))
    place = disk.outside / "tables"
    place.mkdir()
    if (user := owner()) is not None:
        shutil.chown(place, user)
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"CREATE TABLESPACE small LOCATION '{disk.folder / 'tables'}'")
        connection.execute("CREATE DATABASE small TABLESPACE small")
    return SomeMedium(server.url.removesuffix("postgres") + "small", (), disk.fill, disk.clear)


def redis_medium(life: ExitStack) -> Medium:
    server = life.enter_context(redis_server(SAFE))

    def fill() -> None:
        with server.client() as client:
            used: Any = client.info("memory")["used_memory"]
            limit: Any = client.config_get("maxmemory")
            if limit["maxmemory"] == "0":
                client.config_set("maxmemory", used - REDIS_SHORT_BYTES)

    def clear() -> None:
        with server.client() as client:
            client.config_set("maxmemory", 0)

    return SomeMedium(server.url, (), fill, clear)


MEDIA = {"sqlite": sqlite_medium, "postgres": postgres_medium, "redis": redis_medium}


@pytest.fixture(params=MEDIA)
def medium(request: pytest.FixtureRequest) -> Iterator[Medium]:
    with ExitStack() as life:
        yield MEDIA[request.param](life)


@dataclass
class System:
    http: Http
    engine: PausableEngine
    medium: Medium
    store: StoreClient

    async def turn(self, **request: Any) -> Answer:
        return await self.http.create(**{"model": "m", "input": LONG} | request)

    async def stored_turns(self, count: int) -> list[str]:
        """Stores so many turns, one after another. Returns the ids of their responses."""
        patient = RetryingHttp(self.http.session, self.http.url)
        return [(await patient.create(model="m", input=LONG)).json["id"] for _ in range(count)]


@pytest.fixture
async def system(medium: Medium, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[System]:
    """The turn that fills the store waits for room for two seconds, and so for longer than a report of room counts."""
    monkeypatch.setattr(server, "retrying", partial(retrying, policies={**STORE, Retry.KEEP: RetryPolicy(for_s=2.0)}))
    engine = PausableEngine("Hello there.")
    with serve("store", f"--store-url={medium.url}", prefix=medium.prefix) as (_, address):
        async with (
            StoreClient(address) as store,
            running(translator=losable(engine, SystemClock()), store=store) as edge,
        ):
            yield System(edge.http, engine, medium, store)


async def keyed_turn(system: System, key: str) -> Answer:
    """Asks for a turn under an idempotency key."""
    body = {"model": "m", "input": LONG}
    return await system.http.ask("POST", "/v1/responses", body, headers={"Idempotency-Key": key})


async def until_refused(system: System) -> Answer:
    """Fills the medium until a turn is rejected before its generation. The turns before are stored in the room that is
    left, except one at most: its room was reported a moment before the room was gone."""
    lost = 0
    async with asyncio.timeout(WAIT_MAX_S):
        while True:
            system.medium.fill()
            asked = len(system.engine.requests)
            answer = await system.turn()
            if len(system.engine.requests) == asked:
                return answer
            lost += answer.status != 200
            assert lost <= 1, "the model generates what nobody can keep"


async def test_a_full_store_rejects_turns_before_generation_and_serves_the_rest(system: System) -> None:
    stored = await system.stored_turns(20)
    keyed = await keyed_turn(system, "k")
    refused = await until_refused(system)
    assert (refused.status, refused.error["code"], refused.headers["retry-after"]) == (503, "store_unavailable", "1")
    asked = len(system.engine.requests)
    for request in ({}, {"stream": True}, {"background": True}, {"previous_response_id": stored[0]}):
        refused = await system.turn(**request)
        assert (refused.status, refused.error["code"]) == (503, "store_unavailable"), request
    assert (await keyed_turn(system, "new")).status == 503
    assert (await keyed_turn(system, "k")).json == keyed.json
    assert len(system.engine.requests) == asked
    assert (await system.http.get(f"/v1/responses/{stored[0]}")).json["status"] == "completed"
    assert (await system.turn(store=False)).status == 200
    for response_id in stored[:10]:
        assert (await system.http.ask("DELETE", f"/v1/responses/{response_id}")).status == 200
    swept = await system.store.sweep("default", limit=100)
    assert swept.records == 10
    system.medium.clear()
    answer = await system.turn()
    assert answer.status == 200
    assert (await system.http.get(f"/v1/responses/{answer.json['id']}")).status == 200


@pytest.mark.parametrize("medium", ["sqlite", "redis"], indirect=True)  # PostgreSQL's tables keep deleted rows' room
async def test_deletes_make_room_on_a_disk_that_stays_full(system: System) -> None:
    stored = await system.stored_turns(60)
    await until_refused(system)
    for response_id in stored:
        assert (await system.http.ask("DELETE", f"/v1/responses/{response_id}")).status == 200
    await system.store.sweep("default", limit=100)
    answers = [await system.turn() for _ in range(10)]
    assert [answer.status for answer in answers] == [200] * 10
    for answer in answers:
        assert (await system.http.get(f"/v1/responses/{answer.json['id']}")).status == 200


@pytest.mark.parametrize("medium", ["sqlite", "postgres"], indirect=True)
async def test_a_tenant_is_erased_on_a_full_disk(system: System) -> None:
    stored = await system.stored_turns(20)
    await until_refused(system)
    url = f"--store-url={system.medium.url}"
    erasing = Command("store", "erase", "--tenant=default", "--yes", url, prefix=system.medium.prefix)
    assert await asyncio.to_thread(erasing.process.wait) == 0, "".join(erasing.lines)
    assert (await system.http.get(f"/v1/responses/{stored[0]}")).status == 404
