from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import pytest

from antiphon_core.clock import SystemClock
from antiphon_core.errors import InvalidRequest, ModelNotFound
from antiphon_core.limits import SILENCE_MS_MIN
from antiphon_core.rpc.methods import TRANSLATOR
from antiphon_core.rpc.server import Call
from antiphon_protos.antiphon.translator import v1
from antiphon_translator import wire
from antiphon_translator.engines.scripted import Emit, Hang, ScriptedEngine, Wait
from antiphon_translator.server import handlers
from antiphon_translator.service import TranslatorService
from antiphon_translator.settings import TranslatorSettings
from tests.support.served_models import END_ID, model, tokenizer, turn
from tests.support.waiting import WAIT_MAX_S, until

CALL = Call(tenant="default", time_remaining_s=None)
IDS = tokenizer().encode("The quick brown fox jumps over the lazy dog.")


class Served:
    """A translator with one scripted model, and its handlers."""

    def __init__(self) -> None:
        self.engine = ScriptedEngine([])
        self.service = TranslatorService(TranslatorSettings(), clock=SystemClock())
        self.service.add(model(), self.engine)
        self.handlers = handlers(self.service)

    def generate(self, **asked: Any) -> AsyncGenerator[Any, None]:
        request = v1.GenerateRequest(turn=wire.turn_message(turn("Hi", **asked)), checkpoints=True)
        stream: Any = self.handlers["Generate"](request, CALL)
        return stream  # type: ignore[no-any-return]


def test_every_rpc_has_a_handler() -> None:
    assert set(Served().handlers) == set(TRANSLATOR.methods)


@pytest.mark.parametrize("silence_ms", [1, SILENCE_MS_MIN - 1])
async def test_silence_ms_below_the_minimum_is_rejected(silence_ms: int) -> None:
    served = Served()
    request = v1.GenerateRequest(turn=wire.turn_message(turn("Hi")), silence_ms=silence_ms)
    with pytest.raises(InvalidRequest, match="silence_ms") as caught:
        await anext(served.handlers["Generate"](request, CALL))  # type: ignore[arg-type]
    assert caught.value.field == "silence_ms"


async def test_batches_that_are_ready_during_a_write_are_one_message() -> None:
    served = Served()
    served.engine.script = [*(Emit([token_id]) for token_id in IDS), Wait(0), Hang()]
    async with asyncio.timeout(WAIT_MAX_S), aclosing(served.generate()) as messages:
        first = await anext(messages)
        while not served.engine.requests or list(first.token_ids) != IDS:
            more = await anext(messages)
            assert more.first_sequence == first.first_sequence + first.count
            first = more
    assert list(first.token_ids) == IDS
    assert first.count > len(IDS)


async def test_final_batch_is_a_message_of_its_own() -> None:
    served = Served()
    served.engine.script = [Emit([token_id]) for token_id in [*IDS, END_ID]]
    messages = [message async for message in served.generate()]
    assert [message.HasField("final") for message in messages] == [*(False for _ in messages[1:]), True]
    assert messages[-1].count == 1
    assert [token_id for message in messages for token_id in message.token_ids][: len(IDS)] == IDS


async def test_error_of_the_turn_is_raised() -> None:
    with pytest.raises(ModelNotFound):
        await anext(Served().generate(model="other"))


async def test_closing_the_stream_stops_the_engine() -> None:
    served = Served()
    served.engine.script = [Hang()]
    async with aclosing(served.generate()) as messages:
        await anext(messages)
        await until(lambda: bool(served.engine.requests), "the engine is asked")
    assert served.engine.stopped.is_set()


async def test_engine_is_not_read_while_messages_are_not_taken() -> None:
    served = Served()
    served.engine.script = [Emit([token_id]) for token_id in IDS * 1_000]
    async with aclosing(served.generate()) as messages:
        await anext(messages)
        await until(lambda: bool(served.engine.requests), "the engine is asked")
        await asyncio.sleep(0.05)
        assert not served.engine.stopped.is_set()
    assert served.engine.stopped.is_set()
