"""Runs of plain tokens change no byte of a turn: each turn is run with them and without, and all batches are equal.

Outputs are those of the models of all families, and random ones. They come as random tokens, in random chunks, and half
of the turns have stop texts that are, or nearly are, in the output.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from antiphon_core.errors import EngineFault
from antiphon_core.ids import SequentialIds
from antiphon_translator.engines.scripted import ALL_CONTROLS
from antiphon_translator.generation import TokenChunk
from antiphon_translator.models.served_model import ServedModel
from antiphon_translator.output.plain_run import PlainRun
from antiphon_translator.parsing import families
from antiphon_translator.parsing.token_syntax import TokenSyntax
from antiphon_translator.pipeline import TurnPipeline
from antiphon_translator.prompt.prompt import PromptEncoder
from antiphon_translator.templates.jinja import JinjaTemplate
from tests.support.pipelines import pipeline_of
from tests.support.plain_runs import taken_segments
from tests.support.served_models import model, turn
from tests.support.tool_calls.random_outputs import output_fuzzer
from tests.support.tool_calls.random_tokens import RandomTokens, byte_level, sentence_pieces
from tests.support.tool_calls.vectors import all_vectors
from tests.support.volume import volume

OUTPUTS = volume(6, 2_000)
"""How many random outputs of each family are checked, beside those of its models."""
PROSE = (
    *("Hello there, naïve 北京 world! 🙂 ", "  lots   of\n\n spaces \t", "if (a < b && list[3] > 0) { call(x); } "),
    *('“quotes” \\ back\\slash "q" ', "\u200b\u00a0x ", "e\u0301 ", "\ufffd ", "\x00\x1f\x85 ", "the word " * 9),
)
TOOLS = [
    {"type": "function", "name": name, "parameters": {"type": "object", "properties": {"x": {"type": "string"}}}}
    for name in ("f", "g", "get_weather")
]
Cuts = Sequence[Sequence[TokenChunk]]


@pytest.mark.parametrize("family", families.names())
def test_batches_are_equal_with_and_without_plain_runs(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    taken, begin = taken_segments(monkeypatch), PlainRun.begin
    for seed, (text, tail) in enumerate(outputs(family)):
        chance = random.Random(f"{family} {seed}")
        served, tokens = served_model(family, chance, tail)
        cuts = random_chunks(tokens, text, chance)
        stops = random_stops(text, chance) if chance.random() < 0.5 else []
        count = sum(len(chunk.ids) for chunks in cuts for chunk in chunks)
        run = turn_of(served, chance, count=count, stops=stops)
        with_runs = run(cuts)
        monkeypatch.setattr(PlainRun, "begin", lambda _run: None)
        assert run(cuts) == with_runs, (family, seed, text, tail, stops, cuts)
        monkeypatch.setattr(PlainRun, "begin", begin)
    assert len(taken) > 20


def outputs(family: str) -> Iterator[tuple[str, str]]:
    """Texts of the family's models and random ones, mostly among prose, with the ends of their prompts."""
    chance, here = random.Random(family), output_fuzzer(family, tokens=False)
    for vector in all_vectors():
        if vector.family == family:
            yield f"{chance.choice(PROSE)}{vector.raw}" if chance.random() < 0.5 else vector.raw, vector.prompt_tail
    for _ in range(OUTPUTS):
        make = here.random_output if chance.random() < 0.5 else here.quoted_markers
        prose = "".join(chance.choice(PROSE) for _ in range(chance.randint(0, 4)))
        text = make(chance, pieces=chance.randint(1, 12)) + prose
        yield prose + text, chance.choice(here.markers) if chance.random() < 0.3 else ""


def served_model(family: str, chance: random.Random, tail: str) -> tuple[ServedModel, RandomTokens]:
    """A model of the family whose prompts end in `tail`. Its markers are control tokens, or text."""
    markers = tuple(sorted({each for each in output_fuzzer(family, tokens=False).markers if len(each.strip()) > 1}))
    tokens = chance.choice((byte_level, sentence_pieces))(*(markers if chance.random() < 0.5 else ()))
    template = JinjaTemplate("{% raw %}Hi " + tail[-60:] + "{% endraw %} ", special_tokens={})
    prompt = PromptEncoder(template, tokens.tokenizer)
    syntax = _syntax(family, tokens)
    served = replace(model(), tokenizer=tokens.tokenizer, prompt=prompt, syntax=syntax, context_length=10**7)
    return replace(served, stop_in_reasoning=chance.random() < 0.3), tokens


def random_stops(text: str, chance: random.Random) -> list[str]:
    """Stop texts: parts of a text, half of them with another end, so that the text has only their beginnings."""
    stops = []
    for _ in range(chance.choice((1, 1, 4, 16))):
        at = chance.randrange(max(1, len(text)))
        part = text[at : at + chance.choice((1, 2, 5, 12))]
        stops.append(part + "\u2603" if not part or chance.random() < 0.7 else part)
    return stops


@cache
def _syntax(family: str, tokens: RandomTokens) -> TokenSyntax:
    return TokenSyntax(families.load(family), tokens.tokenizer)


def random_chunks(tokens: RandomTokens, text: str, chance: random.Random) -> Cuts:
    """A text as it may come: in reads of some chunks of some tokens. A few of the ids are any others."""
    ids = tokens.cut(text, chance)
    if chance.random() < 0.3:
        ids = [each if chance.random() > 0.1 else chance.randrange(tokens.tokenizer.size + 5) for each in ids]
    largest = chance.choice((1, 1, 3, 9))
    chunks = [TokenChunk(part) for part in _parts(ids, largest, chance)]
    return list(_parts(chunks, chance.choice((1, 1, 4)), chance))


def _parts(whole: Sequence[Any], largest: int, chance: random.Random) -> Iterator[Sequence[Any]]:
    at = 0
    while at < len(whole):
        size = chance.randint(1, largest)
        yield whole[at : at + size]
        at += size


def turn_of(
    served: ServedModel, chance: random.Random, *, count: int, stops: Sequence[str]
) -> Callable[[Cuts], object]:
    """A function that runs one turn on chunks, and returns all that it said. The turn may end in any way."""
    asked: dict[str, Any] = {"max_output_tokens": chance.choice((count + 50, max(1, count - chance.randint(0, 9))))}
    if chance.random() < 0.7:
        asked |= {"tools": TOOLS, "parallel_tool_calls": chance.random() < 0.7}
    if stops:
        asked["stop"] = stops
    is_failed, has_ids = chance.random() < 0.1, chance.random() < 0.5

    def run(cuts: Cuts) -> object:
        made = pipeline_of(served, turn("Hi", **asked), controls=ALL_CONTROLS, ids=SequentialIds(), checkpoints=has_ids)
        batches = [*made.start()[0], *_received(made, cuts)]
        batches += made.fail(EngineFault("x")) if is_failed else made.finish(completed_at=7)
        return batches, made.usage

    return run


def _received(made: TurnPipeline, cuts: Cuts) -> Iterator[Any]:
    for chunks in cuts:
        if made.is_done:
            return
        yield from made.receive(chunks)
