from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from antiphon_core.errors import AntiphonError, InternalError, PositionMismatch, StoreUnavailable
from antiphon_core.limits import APPEND_REQUEST_ITEMS_MAX
from antiphon_core.ports.event_logs import EventAppend
from antiphon_core.rpc.client import RpcClient
from antiphon_core.rpc.methods import STORE
from antiphon_core.rpc.server import Call, RpcServer
from antiphon_store.append_queue import AppendQueue
from antiphon_store.calls import OPERATIONS
from antiphon_store.server import handlers
from tests.support.waiting import until

FRAME = b"data: {}\n\n"


class Logs:
    """A store that only appends, and records tenant and response of each append."""

    def __init__(self) -> None:
        self.appended: list[tuple[str, str]] = []
        self.errors: dict[str, Exception] = {}
        self.go = asyncio.Event()
        self.go.set()

    async def append_events(self, tenant: str, append: EventAppend, **_: Any) -> int:
        await self.go.wait()
        self.appended.append((tenant, append.response_id))
        if append.response_id in self.errors:
            raise self.errors[append.response_id]
        return append.expected_position + append.count

    async def ready(self) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        """No other method is called."""
        return None


class World:
    """A queue, the store behind it, and the RPCs between them."""

    def __init__(self, logs: Logs, client: RpcClient) -> None:
        self.logs = logs
        self.queue = AppendQueue(client)
        self.rpcs: list[str] = []

    async def all(self, *appends: tuple[str, str]) -> list[int | BaseException]:
        """Makes appends at once and returns the outcome of each."""
        each = (self.queue.append(tenant, request(name)) for tenant, name in appends)
        return await asyncio.gather(*each, return_exceptions=True)

    async def until_called(self, times: int) -> None:
        await until(lambda: len(self.rpcs) >= times, f"{times} RPCs")


def request(name: str, frames: bytes = FRAME) -> Any:
    return OPERATIONS["AppendEvents"].request({"append": EventAppend(name, 6, 1, frames), "fence": None})


@asynccontextmanager
async def made() -> AsyncIterator[World]:
    logs = Logs()
    server = RpcServer()
    store: Any = logs
    found: Any = handlers(store)
    rpcs: list[str] = []

    def counted(name: str) -> Any:
        async def serve(message: Any, call: Call) -> Any:
            rpcs.append(name)
            return await found[name](message, call)

        return serve

    server.add(STORE, {name: counted(name) for name in ("AppendEvents", "AppendToLogs")}, ready=logs.ready)
    port = await server.start("127.0.0.1", 0)
    async with RpcClient(f"127.0.0.1:{port}", STORE, unavailable=StoreUnavailable) as client:
        world = World(logs, client)
        world.rpcs = rpcs
        yield world
    await world.queue.close()
    await server.drain(0)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with made() as world:
        yield world


async def test_one_append_is_an_rpc_of_its_own(world: World) -> None:
    assert await world.all(("t", "a")) == [7]
    assert world.rpcs == ["AppendEvents"]


async def test_concurrent_appends_of_a_tenant_share_an_rpc(world: World) -> None:
    assert await world.all(("t", "a"), ("t", "b"), ("t", "c")) == [7, 7, 7]
    assert sorted(world.logs.appended) == [("t", "a"), ("t", "b"), ("t", "c")]
    assert world.rpcs == ["AppendToLogs"]


async def test_tenants_share_no_rpc(world: World) -> None:
    assert await world.all(("t", "a"), ("u", "b"), ("t", "c")) == [7, 7, 7]
    assert sorted(world.logs.appended) == [("t", "a"), ("t", "c"), ("u", "b")]
    assert sorted(world.rpcs) == ["AppendEvents", "AppendToLogs"]


async def test_an_append_does_not_wait_for_the_answer_to_another(world: World) -> None:
    world.logs.go.clear()
    first = asyncio.create_task(world.queue.append("t", request("a")))
    await world.until_called(1)
    second = asyncio.create_task(world.queue.append("t", request("b")))
    await world.until_called(2)
    assert world.rpcs == ["AppendEvents"] * 2
    world.logs.go.set()
    assert (await first, await second) == (7, 7)


async def test_a_refused_append_fails_alone(world: World) -> None:
    world.logs.errors["b"] = PositionMismatch("The log ends elsewhere.", expected=3)
    first, refused, last = await world.all(("t", "a"), ("t", "b"), ("t", "c"))
    assert (first, last) == (7, 7)
    assert isinstance(refused, PositionMismatch)
    assert refused.facts == {"expected": "3"}


async def test_an_unexpected_error_fails_one_append_and_its_cause_is_only_logged(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.logs.errors["b"] = ZeroDivisionError("secret")
    first, broken = await world.all(("t", "a"), ("t", "b"))
    assert first == 7
    assert isinstance(broken, InternalError)
    assert "secret" not in broken.message
    assert "append to the log of b" in caplog.text


async def test_every_append_of_a_lost_rpc_gets_an_error_of_its_own(world: World) -> None:
    world.queue._rpc = RpcClient("127.0.0.1:1", STORE, unavailable=StoreUnavailable)
    errors = await world.all(("t", "a"), ("t", "b"))
    await world.queue._rpc.close()
    assert [type(error) for error in errors] == [StoreUnavailable] * 2
    assert errors[0] is not errors[1]
    assert isinstance(errors[1], AntiphonError)
    assert errors[1].message == "The store cannot be reached."


async def test_an_append_cancelled_at_once_does_not_disturb_the_next(world: World) -> None:
    given_up = asyncio.create_task(world.queue.append("t", request("a")))
    other = asyncio.create_task(world.queue.append("t", request("b")))
    await asyncio.sleep(0)
    given_up.cancel()
    assert await other == 7
    assert world.logs.appended in ([("t", "b")], [("t", "a"), ("t", "b")])


async def test_an_append_whose_caller_left_does_not_hurt_the_others(world: World) -> None:
    world.logs.go.clear()
    left = asyncio.create_task(world.queue.append("t", request("a")))
    other = asyncio.create_task(world.queue.append("t", request("b")))
    await world.until_called(1)
    left.cancel()
    world.logs.go.set()
    assert await other == 7
    await asyncio.wait([left])
    assert left.cancelled()


async def test_a_closed_client_ends_the_appends_that_wait() -> None:
    async with made() as world:
        world.logs.go.clear()
        waiting = asyncio.create_task(world.queue.append("t", request("a")))
        await world.until_called(1)
    with pytest.raises(StoreUnavailable):
        await waiting


async def test_appends_beyond_the_request_limit_go_into_another_rpc(world: World) -> None:
    names = [str(number) for number in range(APPEND_REQUEST_ITEMS_MAX + 1)]
    assert await world.all(*(("t", name) for name in names)) == [7] * len(names)
    assert sorted(world.rpcs) == ["AppendEvents", "AppendToLogs"]
