"""Stop texts end the answer of a model that reasons, and not its reasoning, whatever its engine delivers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from antiphon_core.jsons import Object
from antiphon_translator.engines.scripted import Emit, ScriptedEngine
from antiphon_translator.generation import EngineChunk, Level, TextChunk, TokenChunk
from tests.support.fake_chat import delta, ending
from tests.support.in_process import running
from tests.support.reasoning_model import TOKENIZER, reasoning_model
from tests.support.small_vocabulary import ids_of
from tests.support.templated_system import by_chat

SAID = ("<think>", "One.\n\nTwo.", "</think>", "\n\n", "Three.\n", "\nFour.")
CHAT = (delta(reasoning_content="One.\n\nTwo."), delta(content="\n\nThree.\n"), delta(content="\nFour."), *ending())
FEED = "\n\n"


def texts_of(response: Object) -> list[tuple[str, str]]:
    return [(item["type"], "".join(part["text"] for part in item["content"])) for item in response["output"]]


def chunk_of(level: Level, said: str) -> EngineChunk:
    return TextChunk(said) if level is Level.TEXT else TokenChunk(ids_of(TOKENIZER, said))


@pytest.mark.parametrize("level", [Level.TOKENS, Level.TEXT])
async def test_stop_text_of_a_model_whose_output_is_parsed_here_ends_the_answer(level: Level) -> None:
    engine = ScriptedEngine([Emit(chunk_of(level, said)) for said in SAID])
    engine.level = level
    async with running((reasoning_model(), engine)) as system:
        answer = (await system.http.create(model=reasoning_model().name, input="Hi", stop=FEED)).json
    assert (answer["status"], texts_of(answer)) == ("completed", [("reasoning", "One.\n\nTwo."), ("message", "Three.")])
    assert engine.stopped.is_set()


async def test_stop_text_in_the_reasoning_ends_the_output_with_stop_in_reasoning() -> None:
    engine = ScriptedEngine([Emit(chunk_of(Level.TOKENS, said)) for said in SAID])
    async with running((replace(reasoning_model(), stop_in_reasoning=True), engine)) as system:
        answer = (await system.http.create(model=reasoning_model().name, input="Hi", stop=FEED)).json
    assert (answer["status"], texts_of(answer)) == ("completed", [("reasoning", "One.")])


async def test_stop_text_for_a_chat_server_ends_the_answer_and_is_not_sent() -> None:
    async with by_chat("Qwen3.5-4B") as system:
        system.server.script = [*CHAT]
        answer = (await system.http.create(model="m", input="Hi", stop=FEED)).json
        assert "stop" not in system.server.requests[-1]
    assert (answer["status"], texts_of(answer)) == ("completed", [("reasoning", "One.\n\nTwo."), ("message", "Three.")])
    assert answer["usage"]["output_tokens"] > 0


async def test_chat_server_gets_the_stop_text_with_stop_in_reasoning() -> None:
    async with by_chat("Qwen3.5-4B", stop_in_reasoning=True) as system:
        system.server.script = [*CHAT]
        await system.http.create(model="m", input="Hi", stop=FEED)
        assert system.server.requests[-1]["stop"] == [FEED]
