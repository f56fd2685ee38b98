"""Measures reading the output of each family: chunks of four characters through the parser, and ids up to framed
events."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from tokenizers import AddedToken, Tokenizer
from tokenizers.decoders import DecodeStream

from antiphon_core.ids import RandomIds
from antiphon_core.ports.translator import Turn
from antiphon_translator.engines.scripted import ALL_CONTROLS
from antiphon_translator.generation import TokenChunk
from antiphon_translator.models.served_model import ServedModel
from antiphon_translator.output.token_output import TokenParser
from antiphon_translator.parsing import families
from antiphon_translator.parsing.token_syntax import TokenSyntax
from antiphon_translator.prompt.prompt import PromptEncoder
from antiphon_translator.templates.jinja import JinjaTemplate
from antiphon_translator.tokenizer.tokens import ModelTokenizer
from benchmarks.measuring import Work, print_table, work
from benchmarks.translator.samples import PARTS, Sample, sample
from tests.support.pipelines import pipeline_of
from tests.support.served_models import FILES, model, turn

CHUNK_CHARS = 4  # the length of a typical token
CHARS = 20_000
CALL_CHARS = (1_000, 10_000, 100_000)
BATCH = 16  # ids that arrive together
ROUNDS = 3
CONTEXT_TOKENS = 10_000_000


def print_parsers(names: Sequence[str]) -> None:
    """Prints chunks per second for each kind of text, and the cost of a chunk in calls of three lengths."""
    rows, slowest = [], []
    for name in names:
        rates = {part: _rate(given, CHARS) for part in PARTS if (given := sample(name, part)) is not None}
        slowest.append((min(rates.values()), name))
        rows.append([name, *(f"{rates[part]:,.0f}" if part in rates else "-" for part in PARTS), *_growth(name)])
    headings = ["", *PARTS, *(f"call of {chars // 1000} KB: us" for chars in CALL_CHARS), "100 KB / 1 KB"]
    print_table(f"Parsers: chunks of {CHUNK_CHARS} characters a second, and microseconds a chunk", headings, rows)
    rate, name = min(slowest)
    print(f"\n  the slowest: {name}, {rate:,.0f} chunks/s")


def print_pipelines(names: Sequence[str]) -> None:
    """Prints ids per second from an engine's ids to framed events, with one id in a batch, in larger batches, and up to
    segments only."""
    rows, slowest = [], []
    for name in names:
        streams = {part: Stream.of(given) for part in PARTS if (given := sample(name, part)) is not None}
        works = {part: stream.against_library(stream.answer) for part, stream in streams.items()}
        rates = {part: streams[part].rate(each) for part, each in works.items()}
        slowest.append((min(rates.values()), name))
        last = streams.get("arguments", streams["content"])
        batched, read = (last.against_library(each) for each in (partial(last.answer, BATCH), last.read))
        rows.append(
            [
                name,
                *(f"{rates[part]:,.0f}" if part in rates else "-" for part in PARTS),
                f"{max(each.ratio for each in works.values()):.1f}",
                *(f"{last.rate(batched):,.0f}", f"{batched.ratio:.1f}"),
                *(f"{last.rate(read):,.0f}", f"{read.ratio:.1f}"),
            ]
        )
    headings = ["", *PARTS, "x library", f"{BATCH} in a batch", "x library", "up to segments", "x library"]
    print_table("Pipelines: ids a second, all the way to framed events", headings, rows)
    rate, name = min(slowest)
    print(f"\n  the slowest: {name}, {rate:,.0f} ids/s")


def _rate(given: Sample, chars: int) -> float:
    """Measures chunks per second. The baseline only joins the chunks."""
    text = given.text(chars)
    chunks = [text[at : at + CHUNK_CHARS] for at in range(0, len(text), CHUNK_CHARS)]
    rounds = max(ROUNDS, 2 * CHARS // chars)
    return len(chunks) / work(partial(_parse, given, chunks), partial("".join, chunks), rounds=rounds).cpu_s


def _parse(given: Sample, chunks: Sequence[str]) -> None:
    parser = given.parser()
    for chunk in chunks:
        parser.feed(chunk)
    parser.finish()


def _growth(name: str) -> list[str]:
    given = sample(name, "arguments")
    if given is None:
        return ["-"] * (len(CALL_CHARS) + 1)
    each_us = [1e6 / _rate(given, chars) for chars in CALL_CHARS]
    return [*(f"{us:.2f}" for us in each_us), f"{each_us[-1] / each_us[0]:.2f}"]


@dataclass(frozen=True)
class Stream:
    """The ids of a sample, and a model that emits them."""

    given: Sample
    served: ServedModel
    ids: Sequence[int]

    @classmethod
    def of(cls, given: Sample) -> Stream:
        served = _served(given)
        return cls(given, served, served.tokenizer.encode(given.text(CHARS)))

    def rate(self, done: Work) -> float:
        """Returns ids per second."""
        return len(self.ids) / done.cpu_s

    def against_library(self, call: Callable[[], object]) -> Work:
        return work(call, self._decode, rounds=ROUNDS)

    def answer(self, batch: int = 1) -> None:
        """Runs the whole pipeline on the ids, `batch` of them at once."""
        pipeline = pipeline_of(self.served, _asked(self.given), controls=ALL_CONTROLS, ids=RandomIds())
        pipeline.start()
        for start in range(0, len(self.ids), batch):
            pipeline.receive([TokenChunk([token_id]) for token_id in self.ids[start : start + batch]])
        pipeline.finish(completed_at=0)

    def read(self) -> None:
        """Reads the ids up to segments."""
        prompt = self.served.tokenizer.encode(self.given.prompt_tail)
        parser = TokenParser(self.served.syntax, prompt_ids=prompt, schemas=self.given.schemas)
        for token_id in self.ids:
            parser.feed([token_id])
        parser.finish(cut_off=False)

    def _decode(self) -> None:
        """Decodes the ids with the library alone, the least possible cost."""
        stream, tokenizer = DecodeStream([]), self.served.tokenizer
        for token_id in self.ids:
            stream.step(tokenizer.library, token_id)


def _served(given: Sample) -> ServedModel:
    """Returns a model with SmolLM2's vocabulary, the family's control tokens, and a prompt that ends as the family's
    does."""
    library = Tokenizer.from_buffer(gzip.decompress((FILES / "tokenizer.json.gz").read_bytes()))
    library.add_tokens([AddedToken(marker, special=False, normalized=False) for marker in given.markers])
    tokenizer = ModelTokenizer(library)
    template = JinjaTemplate("{% raw %}" + given.prompt_tail + "{% endraw %} ", special_tokens={})
    return replace(
        model(),
        tokenizer=tokenizer,
        prompt=PromptEncoder(template, tokenizer),
        syntax=TokenSyntax(families.load(given.family), tokenizer),
        context_length=CONTEXT_TOKENS,
    )


def _asked(given: Sample) -> Turn:
    tools = [{"type": "function", "name": name, "parameters": schema} for name, schema in given.schemas.items()]
    return turn("Hi", tools=tools)
