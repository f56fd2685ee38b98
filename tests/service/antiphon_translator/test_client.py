from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from antiphon_core.errors import InvalidRequest, TranslatorUnavailable
from antiphon_core.flow import Flow
from antiphon_core.ports.translator import Batch, Turn
from antiphon_core.rpc.methods import TRANSLATOR
from antiphon_core.rpc.server import Call, RpcServer
from antiphon_translator import wire
from antiphon_translator.client import TranslatorClient
from tests.support import pushed

TURN = Turn(response_id="resp_1", created_at=7, request=b"{}")


async def always_ready() -> None:
    pass


async def half(_request: Any, _call: Call) -> AsyncGenerator[Any, None]:
    """A translator that ends its stream without a terminal event."""
    yield wire.batch_message(Batch(first_sequence=0, count=1, frames=b"event"))


async def test_stream_without_a_terminal_event_is_unavailable() -> None:
    server = RpcServer()
    server.add(TRANSLATOR, {"Generate": half}, ready=always_ready)
    client = TranslatorClient(f"127.0.0.1:{await server.start('127.0.0.1', 0)}")
    batches = pushed.generated(client, TURN)
    assert (await anext(batches)).frames == b"event"
    with pytest.raises(TranslatorUnavailable, match="without a terminal event"):
        await anext(batches)
    await client.close()
    await server.drain(0)


async def test_turn_for_a_translator_of_the_release_before_is_checked_by_counting() -> None:
    async def count(_request: Any, _call: Call) -> Any:
        raise InvalidRequest("Wrong.", field="input")

    server = RpcServer()
    server.add(TRANSLATOR, {"CountTokens": count}, ready=always_ready)
    client = TranslatorClient(f"127.0.0.1:{await server.start('127.0.0.1', 0)}")
    with pytest.raises(InvalidRequest) as caught:
        await client.check(TURN)
    assert caught.value.field == "input"
    await client.close()
    await server.drain(0)


async def test_unreachable_translator_is_unavailable() -> None:
    client = TranslatorClient("127.0.0.1:1", wait_s=0.0)
    with pytest.raises(TranslatorUnavailable):
        await anext(pushed.generated(client, TURN))
    await client.close()


async def test_nothing_is_read_while_the_flow_is_paused() -> None:
    sent = asyncio.Semaphore(1)  # one batch at a time, because all batches of one read are received at once

    async def many(_request: Any, _call: Call) -> AsyncGenerator[Any, None]:
        for number in range(3):
            await sent.acquire()
            yield wire.batch_message(Batch(first_sequence=number, count=1, frames=b"event"))

    server = RpcServer()
    server.add(TRANSLATOR, {"Generate": many}, ready=always_ready)
    client = TranslatorClient(f"127.0.0.1:{await server.start('127.0.0.1', 0)}")
    flow, received, came = Flow(), list[Batch](), asyncio.Event()

    def receive(batch: Batch) -> None:
        flow.pause(came)
        received.append(batch)
        sent.release()
        came.set()

    running = asyncio.create_task(client.generate(TURN, receive, flow=flow))
    for count in (1, 2, 3):
        await came.wait()
        came.clear()
        await asyncio.sleep(0.05)
        assert len(received) == count
        flow.resume(came)
    with pytest.raises(TranslatorUnavailable):
        await running
    await client.close()
    await server.drain(0)
