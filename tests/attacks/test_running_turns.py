"""Turns whose requests and histories are large, and which do not end. One tenant may hold a part of the bytes that the
process has room for; another tenant's turns go on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from antiphon_core import events
from antiphon_core.errors import TranslatorUnavailable
from antiphon_core.jsons import Object
from antiphon_edge.callers.authentication import TENANT_HEADER
from antiphon_translator.engines.scripted import Hang, ScriptedEngine
from tests.support.edge import RunningEdge, running_edge
from tests.support.http import Answer
from tests.support.in_process import translator_of
from tests.support.served_models import model, turn
from tests.support.socket_client import connected
from tests.support.waiting import WAIT_MAX_S, until

LIMIT = 2**20
TEXT = "x" * 100_000
FITTING = 8  # texts in four fifths of the limit
TRIES = 12
ATTACKER, VICTIM = {TENANT_HEADER: "attacker"}, {TENANT_HEADER: "victim"}
Asking = asyncio.Task[Answer]


@pytest.fixture
async def edge() -> AsyncIterator[RunningEdge]:
    async with running_edge(tenants=True, turns_bytes_max=LIMIT) as running:
        yield running


@asynccontextmanager
async def held(
    edge: RunningEdge, path: str = "/v1/responses", headers: Object | None = None, **members: Any
) -> AsyncIterator[list[Asking]]:
    """Tries to run turns of the attacker that do not end. Yields those that run or were rejected."""
    asked: list[Asking] = []
    edge.translator.turns.clear()
    edge.translator.hang = True
    for number in range(TRIES):
        named = {name: f"{value}{number}" for name, value in (headers or {}).items()}
        asking = asyncio.create_task(edge.ask("POST", path, {"model": "m"} | members, headers=ATTACKER | named))
        asked.append(asking)
        await until(lambda: asking.done() or len(edge.translator.turns) == running(asked), "the turn")  # noqa: B023
    edge.translator.hang = False
    try:
        yield asked
    finally:
        await leave(asked)


async def leave(asked: list[Asking]) -> None:
    for asking in asked:
        asking.cancel()
    await asyncio.gather(*asked, return_exceptions=True)


def running(asked: list[Asking]) -> int:
    return sum(not asking.done() for asking in asked)


async def assert_bounded(edge: RunningEdge, asked: list[Asking]) -> None:
    assert 1 <= running(asked) <= FITTING
    for rejected in await asyncio.gather(*(asking for asking in asked if asking.done())):
        assert (rejected.status, rejected.headers["retry-after"]) == (429, "1")
        assert "turns_bytes_max" in rejected.error["message"]
    assert (await edge.ask("POST", "/v1/responses", {"model": "m", "input": "hi"}, headers=VICTIM)).status == 200


MESSAGES = [{"role": "user", "content": TEXT}]


@pytest.mark.parametrize(
    ("path", "headers", "members"),
    [
        ("/v1/responses", {}, {"input": TEXT, "store": False}),
        ("/v1/responses", {}, {"input": "hi", "instructions": TEXT, "stream": True}),
        ("/v1/responses", {"Idempotency-Key": "k"}, {"input": TEXT}),
        ("/v1/chat/completions", {}, {"messages": MESSAGES}),
    ],
)
async def test_bytes_of_running_turns_have_a_share_per_tenant(
    edge: RunningEdge, path: str, headers: Object, members: Object
) -> None:
    async with held(edge, path, headers, **members) as asked:
        await assert_bounded(edge, asked)
        assert running(asked) == FITTING
    if not headers:  # a turn with a key goes on without its caller
        held_bytes = edge.server._limiter.shedder.held_bytes
        await until(lambda: held_bytes.held_bytes == 0, "the end of the turns")


async def test_turns_with_a_key_count_while_they_go_on_without_their_caller(edge: RunningEdge) -> None:
    async with held(edge, headers={"Idempotency-Key": "k"}, input=TEXT) as asked:
        await leave(asked)
        body = {"model": "m", "input": TEXT}
        assert (await edge.ask("POST", "/v1/responses", body, headers=ATTACKER)).status == 429


async def test_histories_of_running_turns_count(edge: RunningEdge) -> None:
    body = {"model": "m", "input": TEXT}
    stored = (await edge.ask("POST", "/v1/responses", body, headers=ATTACKER)).json
    async with held(edge, input="hi", previous_response_id=stored["id"]) as asked:
        await assert_bounded(edge, asked)


async def test_turns_of_websockets_count(edge: RunningEdge) -> None:
    edge.translator.hang = True
    last = []
    async with AsyncExitStack() as stack:
        for _ in range(TRIES):
            client = await stack.enter_async_context(connected(edge, headers=ATTACKER))
            await client.send(input=TEXT)
            last.append((await client.until(events.OUTPUT_TEXT_DELTA, events.ERROR))[-1])
    rejected = [event for event in last if event["type"] == events.ERROR]
    assert len(rejected) == TRIES - FITTING
    assert all(event["status"] == 429 and "turns_bytes_max" in event["error"]["message"] for event in rejected)


async def test_histories_that_idle_websockets_keep_are_bounded(edge: RunningEdge) -> None:
    most = 2 * FITTING
    async with AsyncExitStack() as stack:
        kept = []
        for _ in range(most + 2):
            client = await stack.enter_async_context(connected(edge, headers=ATTACKER))
            kept.append((client, await client.ask(input=TEXT, generate=False)))
        (first, known), (last, lost) = kept[0], kept[-1]
        assert (await last.refusal(previous_response_id=lost["id"]))["code"] == "previous_response_not_found"
        async with connected(edge, headers=VICTIM) as other:
            begun = await other.ask(generate=False)
            assert (await other.ask(previous_response_id=begun["id"]))["status"] == "completed"
        assert (await first.ask(previous_response_id=known["id"]))["status"] == "completed"
    kept_bytes = edge.server._limiter.shedder.kept_bytes
    await until(lambda: kept_bytes.held_bytes == 0, "the end of the connections")


async def test_a_translator_bounds_the_bytes_of_its_turns() -> None:
    text = "hi " * 3_333
    service = translator_of((model(context_length=2**30), ScriptedEngine([Hang()])), turns_bytes_max=100_000)
    generating = [asyncio.create_task(service.generate(turn(text), lambda _: None)) for _ in range(TRIES)]
    done, hanging = await asyncio.wait(generating, timeout=WAIT_MAX_S, return_when=asyncio.FIRST_COMPLETED)
    assert 1 <= len(hanging) <= FITTING
    for each in done:
        with pytest.raises(TranslatorUnavailable, match="turns_bytes_max"):
            await each
    for each in hanging:
        each.cancel()
    await asyncio.gather(*hanging, return_exceptions=True)
    running = asyncio.create_task(service.generate(turn(text), lambda _: None))
    await asyncio.wait([running], timeout=0)
    assert not running.done()
    running.cancel()
    await service.close()
