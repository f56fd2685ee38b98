"""Prompts that cannot fit into the context are rejected before they are encoded, and encoding stops when its caller has
gone."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest
from tokenizers import Encoding

from antiphon_core.errors import ContextLengthExceeded
from antiphon_core.jsons import Object
from antiphon_core.ports.translator import Turn
from antiphon_translator.engines.scripted import Emit, ScriptedEngine
from antiphon_translator.service import TranslatorService
from antiphon_translator.tokenizer.tokens import ModelTokenizer
from tests.support.in_process import translator_of
from tests.support.served_models import END_ID, message, model, turn
from tests.support.waiting import until

BODY_CHARS = 10_380_000
"""9.9 MiB, which fits into a request."""
CONTEXT_TOKENS = 8_192


class Encoded:
    """Counts encoded characters, with a gate before each call of the library."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.chars = 0
        self.calls = 0
        self.is_open = threading.Event()
        self.is_open.set()
        encode_all = ModelTokenizer.encode_all

        def counted(tokenizer: ModelTokenizer, texts: Sequence[str]) -> list[Encoding]:
            self.calls += 1
            self.chars += sum(map(len, texts))
            self.is_open.wait()
            return encode_all(tokenizer, texts)

        monkeypatch.setattr(ModelTokenizer, "encode_all", counted)


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> Encoded:
    return Encoded(monkeypatch)


def serving(context_length: int = CONTEXT_TOKENS) -> tuple[TranslatorService, ScriptedEngine]:
    engine = ScriptedEngine([Emit([END_ID])])
    return translator_of((model(context_length=context_length), engine)), engine


ATTACKS: dict[str, Turn] = {
    "letters": turn("a" * BODY_CHARS),
    "control tokens": turn("<|im_start|>" * (BODY_CHARS // 12)),
    "a long item in the history": turn("Hi", history=[message("user", "word " * 1_000_000)]),
}


@pytest.mark.parametrize("name", ATTACKS)
async def test_a_prompt_that_cannot_fit_is_refused_before_it_is_encoded(name: str, encoded: Encoded) -> None:
    service, engine = serving()
    encoded.chars = 0  # loading a model encodes a sample
    with pytest.raises(ContextLengthExceeded) as refused:
        await service.generate(ATTACKS[name], lambda _: None)
    assert int(refused.value.facts["context_length"]) == CONTEXT_TOKENS
    assert CONTEXT_TOKENS < int(refused.value.facts["input_tokens"]) < BODY_CHARS
    assert encoded.chars == 0
    assert engine.requests == []


async def test_token_count_of_a_prompt_that_cannot_fit_is_rejected_unencoded(encoded: Encoded) -> None:
    service, _ = serving()
    with pytest.raises(ContextLengthExceeded, match="at least"):
        await service.count_tokens(ATTACKS["letters"])
    assert encoded.chars == 0


async def test_truncation_drops_the_oldest_turns_without_encoding_them(encoded: Encoded) -> None:
    service, engine = serving()
    history: list[Object] = [message("user", "word " * 1_000_000), message("assistant", "Yes.")]
    await service.generate(turn("Hi", history=history, truncation="auto"), lambda _: None)
    assert len(engine.requests) == 1
    assert encoded.chars < 1_000


async def test_encoding_stops_after_its_caller_is_cancelled(encoded: Encoded) -> None:
    service, engine = serving(context_length=2**30)
    history: list[Object] = [message("user", "word " * 60_000) for _ in range(20)]
    encoded.is_open.clear()
    leaving = asyncio.ensure_future(service.generate(turn("Hi", history=history), lambda _: None))
    await until(lambda: encoded.calls == 1, "the first part is encoded")
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    encoded.is_open.set()
    small, _ = serving()
    await small.generate(turn("word " * 1_000), lambda _: None)  # waits until a thread is free
    assert encoded.chars < 1_000_000  # of six million
    assert engine.requests == []
