"""An engine message that takes seconds to process: other turns run meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from antiphon_core.jsons import Object
from antiphon_core.limits import ENGINE_SLICE_CHARS_MAX, ENGINE_SLICE_ITEMS_MAX
from antiphon_core.ports.store import Status
from antiphon_core.ports.translator import Batch
from antiphon_translator.engines.scripted import ALL_CONTROLS, Emit, ScriptedEngine
from antiphon_translator.generation import (
    ChatChunk,
    EngineChunk,
    FinishReason,
    Level,
    TextChunk,
    TokenChunk,
    TokenLogprob,
)
from antiphon_translator.parsing import families
from antiphon_translator.parsing.segments import Arguments, CallBegin, CallEnd, Segment
from antiphon_translator.parsing.token_syntax import TokenSyntax
from tests.support.in_process import translator_of
from tests.support.served_models import END_ID, model, tokenizer, turn

TEXT_CHARS = 2**20
IDS = 60_000
CALL: tuple[Segment, ...] = (CallBegin("f"), Arguments("{}"), CallEnd(is_complete=True))
FUNCTION: Object = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}
SCORED: Object = {"include": ["message.output_text.logprobs"], "top_logprobs": 0}


def _openers() -> EngineChunk:
    """Text that opens calls without content. The parser reads each opener twice."""
    opener = "<tool_call>{"
    return TextChunk(opener * (TEXT_CHARS // len(opener)))


def _scored_ids() -> EngineChunk:
    ids = (tokenizer().encode("hello world " * 10) * IDS)[:IDS]
    return TokenChunk(ids, logprobs=[TokenLogprob(each, -1.0) for each in ids])


MESSAGES: Mapping[str, tuple[Level, EngineChunk, Object, int]] = {
    "openers": (Level.TEXT, _openers(), {"tools": [FUNCTION]}, TEXT_CHARS // ENGINE_SLICE_CHARS_MAX),
    "scored ids": (Level.TOKENS, _scored_ids(), SCORED, IDS // ENGINE_SLICE_ITEMS_MAX),
    "calls": (Level.CHAT, ChatChunk(CALL * 4_000), {"tools": [FUNCTION]}, 12_000 // ENGINE_SLICE_ITEMS_MAX),
}


@pytest.mark.parametrize("name", MESSAGES)
async def test_the_event_loop_runs_between_slices_of_a_large_message(name: str) -> None:
    level, chunk, asked, slices = MESSAGES[name]
    engine = ScriptedEngine([Emit(chunk), _end(level)], controls=ALL_CONTROLS | {"logprobs", "top_logprobs"})
    engine.level = level
    syntax = TokenSyntax(families.load("hermes"), tokenizer())
    service = translator_of((model(syntax=syntax, context_length=2**30), engine))
    ticking = asyncio.ensure_future(_tick(ticks := [0]))
    iterations, batches = set[int](), list[Batch]()

    def receive(batch: Batch) -> None:
        iterations.add(ticks[0])
        batches.append(batch)

    await service.generate(turn("Hi", **asked), receive)
    ticking.cancel()
    final = batches[-1].final
    assert final is not None
    assert final.status is Status.COMPLETED
    assert len(iterations) >= slices


def _end(level: Level) -> Emit:
    match level:
        case Level.TOKENS:
            return Emit(TokenChunk([END_ID], logprobs=[TokenLogprob(END_ID, -1.0)]))
        case Level.TEXT:
            return Emit(TextChunk(finish=FinishReason.STOP))
        case Level.CHAT:
            return Emit(ChatChunk(finish=FinishReason.STOP))


async def _tick(ticks: list[int]) -> None:
    """Counts the iterations of the event loop."""
    while True:
        await asyncio.sleep(0)
        ticks[0] += 1
