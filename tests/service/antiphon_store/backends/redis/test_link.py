from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

import pytest
import redis
from redis.asyncio.connection import Connection

from antiphon_core.errors import InternalError, StoreUnavailable
from antiphon_core.ids import RandomIds
from antiphon_store.backends.redis import keys
from antiphon_store.backends.redis.addresses import parse_address
from antiphon_store.backends.redis.backend import RedisRows
from antiphon_store.backends.redis.connection import connect
from antiphon_store.backends.redis.link import TOGETHER, Link
from antiphon_store.backends.redis.programs import arguments
from antiphon_store.backends.redis.scripts import TRANSACT, TRANSACT_READING, Argument, Script
from antiphon_store.rows.model import Add, Get, Kind, Partition, Program, Ref, Set
from antiphon_store.service import StoreService
from antiphon_store.testing.subject import draft
from tests.support.redis_servers import NO_FILES, redis_server, shared_redis

SESSION = Ref(Kind.SESSION, "s")
WRITTEN = b"applied"

Call = tuple[Script, list[str], list[Argument]]


def write_call() -> Call:
    """A write to a new row."""
    here = Partition("x", RandomIds().hex(16))
    return TRANSACT, [keys.root(here)], ["", *arguments(here, Program(changes=[Set(SESSION, {"n": Add(1)})]))]


def read_call() -> Call:
    here = Partition("x", "tree")
    return TRANSACT_READING, [keys.root(here)], ["", *arguments(here, Program(reads=[Get(SESSION)]))]


def link(*, replicas: int = 0) -> Link:
    return Link(connect(parse_address("redis", shared_redis().url.removeprefix("redis://"))), replicas=replicas)


async def in_atom(a_link: Link, *call: Any) -> Any:
    with a_link.atom():
        return await a_link.run(*call)


async def test_a_server_that_forgot_the_scripts_gets_them_again(
    backend: StoreService, server: redis.Redis, tenant: str
) -> None:
    record = draft()
    await backend.put(tenant, record)
    server.script_flush()
    assert (await backend.get(tenant, record.id)).id == record.id
    assert server.script_exists(TRANSACT_READING.sha) == [True]


async def test_a_write_that_no_replica_has_is_not_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antiphon_store.backends.redis.link.WAIT_TIMEOUT_MS", 20)
    waiting = link(replicas=1)
    with pytest.raises(StoreUnavailable, match="may be kept or lost"):
        await waiting.run(*write_call())
    for is_short in (False, True):
        answer = await waiting.run(*read_call(), is_short=is_short)
        assert answer[1] == b"applied"  # a read waits for no replica
    await waiting.close()


async def test_closing_waits_for_a_running_atom() -> None:
    open_link = link()
    call = asyncio.create_task(in_atom(open_link, *read_call()))
    await asyncio.sleep(0)
    await open_link.close()
    assert (await call)[0] == b"ok"
    with pytest.raises(StoreUnavailable, match="closed"), open_link.atom():
        pass


async def test_closing_waits_for_all_calls_of_an_atom() -> None:
    open_link = link()
    call = read_call()
    with open_link.atom():
        closing = asyncio.create_task(open_link.close())
        await asyncio.sleep(0)
        assert [(await open_link.run(*call))[0] for _ in range(2)] == [b"ok", b"ok"]
        assert not closing.done()
    await closing
    with pytest.raises(StoreUnavailable, match="closed"), open_link.atom():
        pass


async def test_more_concurrent_calls_than_connections_all_succeed(backend: StoreService, tenant: str) -> None:
    records = [draft() for _ in range(150)]  # there are 80 connections
    stamps = await asyncio.gather(*(backend.put(tenant, record) for record in records))
    assert {stamp.version for stamp in stamps} == {1}


async def test_a_server_out_of_memory_is_not_ready_and_still_deletes() -> None:
    with redis_server(NO_FILES) as server, server.client() as client:
        scheme, _, rest = server.url.partition("://")
        backend = StoreService(RedisRows(parse_address(scheme, rest)))
        client.config_set("appendonly", "yes")
        client.config_set("appendfsync", "always")
        await backend.open()
        record = draft()
        await backend.put("t", record)
        client.config_set("maxmemory", 1)
        with pytest.raises(StoreUnavailable, match="out of memory"):
            await backend.ready()
        with pytest.raises(StoreUnavailable, match="out of memory"):
            await backend.put("t", draft())
        assert (await backend.get("t", record.id)).id == record.id
        await backend.delete("t", record.id)
        client.config_set("maxmemory", 0)
        await backend.ready()
        await backend.close()


async def test_an_attribute_error_of_a_dropped_connection_becomes_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    open_link = link()

    async def written_to(*_command: object, **_options: object) -> None:
        raise AttributeError("'NoneType' object has no attribute 'writelines'")

    monkeypatch.setattr(Connection, "send_packed_command", written_to)
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        await open_link.run(*read_call())
    monkeypatch.undo()
    await open_link.close()


@pytest.mark.parametrize("replicas", [0, 1])
async def test_a_call_cancelled_at_any_step_ends_as_cancelled(monkeypatch: pytest.MonkeyPatch, replicas: int) -> None:
    monkeypatch.setattr("antiphon_store.backends.redis.link.WAIT_TIMEOUT_MS", 20)
    open_link = link(replicas=replicas)

    async def call() -> object:
        return await in_atom(open_link, *write_call())

    async def ask_readiness() -> None:
        with open_link.atom():
            await open_link.ready()

    with suppress(StoreUnavailable):  # no replica follows
        await call()
    assert [steps for steps in range(40) if not await ends_as_cancelled(call(), steps)] == []
    assert [steps for steps in range(40) if not await ends_as_cancelled(ask_readiness(), steps)] == []
    await open_link.close()


async def ends_as_cancelled(call: Coroutine[Any, Any, object], steps: int) -> bool:
    """Whether a call that is cancelled after `steps` passes of the loop ends as cancelled, or had ended before."""
    calling = asyncio.create_task(call)
    for _ in range(steps):
        await asyncio.sleep(0)
    was_over = not calling.cancel()
    outcome = (await asyncio.gather(calling, return_exceptions=True))[0]
    return was_over or isinstance(outcome, asyncio.CancelledError)


async def test_concurrent_short_calls_share_few_connections(server: redis.Redis) -> None:
    open_link = link()
    before = server.info()["total_connections_received"]
    answers = await asyncio.gather(*(open_link.run(*write_call(), is_short=True) for _ in range(40)))
    assert [answer[1] for answer in answers] == [WRITTEN] * 40
    assert server.info()["total_connections_received"] <= before + 1 + 40 / TOGETHER.together
    await open_link.close()


async def test_short_calls_reach_a_server_that_forgot_their_script(server: redis.Redis) -> None:
    open_link = link()
    server.script_flush()
    answers = await asyncio.gather(*(open_link.run(*write_call(), is_short=True) for _ in range(3)))
    assert [answer[1] for answer in answers] == [WRITTEN] * 3
    assert server.script_exists(TRANSACT.sha) == [True]
    await open_link.close()


async def test_a_short_call_that_the_server_cannot_run_fails_alone() -> None:
    open_link = link()
    script, keys, _ = write_call()
    calls = [open_link.run(*write_call(), is_short=True), open_link.run(script, keys, [], is_short=True)]
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    first, second = outcomes
    assert not isinstance(first, BaseException)
    assert first[1] == WRITTEN
    assert isinstance(second, InternalError)
    await open_link.close()


async def test_short_writes_that_no_replica_has_are_not_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antiphon_store.backends.redis.link.WAIT_TIMEOUT_MS", 20)
    waiting = link(replicas=1)
    calls = [waiting.run(*write_call(), is_short=True) for _ in range(3)]
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [StoreUnavailable] * 3
    await waiting.close()


async def test_a_read_beside_writes_that_no_replica_has_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antiphon_store.backends.redis.link.WAIT_TIMEOUT_MS", 20)
    waiting = link(replicas=1)
    calls = [waiting.run(*each, is_short=True) for each in (write_call(), write_call(), read_call(), read_call())]
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert [isinstance(outcome, StoreUnavailable) for outcome in outcomes] == [True, True, False, False]
    await waiting.close()


async def test_closing_waits_for_short_calls() -> None:
    open_link = link()
    call = asyncio.create_task(open_link.run(*write_call(), is_short=True))
    await asyncio.sleep(0)
    await open_link.close()
    assert (await call)[1] == WRITTEN


async def test_short_calls_to_a_server_that_is_gone_are_unavailable() -> None:
    with redis_server(NO_FILES) as server:
        open_link = Link(connect(parse_address("redis", server.url.removeprefix("redis://"))))
        assert (await open_link.run(*write_call(), is_short=True))[1] == WRITTEN
        server.kill()
        calls = [open_link.run(*write_call(), is_short=True) for _ in range(3)]
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [StoreUnavailable] * 3
        server.start()
        assert (await open_link.run(*write_call(), is_short=True))[1] == WRITTEN
        await open_link.close()
