from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from antiphon_core.errors import TranslatorUnavailable
from antiphon_core.ports.translator import Batch, Turn
from antiphon_core.rpc.methods import TRANSLATOR
from antiphon_core.rpc.server import Call, RpcServer
from antiphon_translator import wire
from antiphon_translator.client import TranslatorClient

TURN = Turn(response_id="resp_1", created_at=7, request=b"{}")


async def always_ready() -> None:
    pass


async def half(_request: Any, _call: Call) -> AsyncGenerator[Any, None]:
    """A translator that ends its stream without a terminal event."""
    yield wire.batch_message(Batch(first_sequence=0, count=1, frames=b"event"))


async def test_a_stream_without_its_end_is_a_lost_translator() -> None:
    server = RpcServer()
    server.add(TRANSLATOR, {"Generate": half}, ready=always_ready)
    client = TranslatorClient(f"127.0.0.1:{await server.start('127.0.0.1', 0)}")
    batches = client.generate(TURN)
    assert (await anext(batches)).frames == b"event"
    with pytest.raises(TranslatorUnavailable, match="without a terminal event"):
        await anext(batches)
    await client.close()
    await server.drain(0)


async def test_nobody_there_is_unavailable() -> None:
    client = TranslatorClient("127.0.0.1:1")
    with pytest.raises(TranslatorUnavailable):
        await anext(client.generate(TURN))
    await client.close()
