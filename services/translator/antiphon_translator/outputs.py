"""What an engine delivers, as segments, and what it adds up to: one class for each level of engines.

    TOKENS   ids are counted here, one by one: usage is exact, and the end of the generation is seen in them
    TEXT     the same parser with literal markers; the engine counts, or else the tokenizer does
    CHAT     the other server has parsed; the engine counts

Each knows when no more is wanted (`finish`), and reasoning tokens as exactly as its level allows.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from antiphon_translator.generation import EngineChunk, FinishReason, GenerationRequest, Level, Usage
from antiphon_translator.parsing.parser import OutputParser
from antiphon_translator.parsing.segments import Arguments, CallBegin, Reasoning, ScoredText, Segment, Text
from antiphon_translator.parsing.token_parser import TokenParser
from antiphon_translator.scored_output import ScoredOutput, Scores
from antiphon_translator.served_model import ServedModel
from antiphon_translator.tokens import ModelTokenizer
from antiphon_translator.turn_prompt import TurnPrompt


class ModelOutput(Protocol):
    """One generation."""

    @property
    def finish(self) -> FinishReason | None:
        """Why it ended, as soon as that is known: then nothing more is wanted."""

    def begin(self, text: str) -> list[Segment]:
        """What the prompt made the model begin with: read like its own, and not counted as such."""

    def take(self, chunk: EngineChunk) -> list[Segment]:
        """What this chunk completed."""

    def end(self, *, cut_off: bool) -> list[Segment]:
        """What is left when nothing more comes. `cut_off`: the model would have gone on."""

    def usage(self) -> Usage:
        """What has been counted so far."""


def output_of(level: Level, model: ServedModel, prompt: TurnPrompt, request: GenerationRequest) -> ModelOutput:
    """The output of a generation that an engine of this level is asked for."""
    schemas = prompt.tools.schemas
    scores = Scores.wanted_by(request, level, model.syntax)
    watch = scores.watch if scores is not None else None
    output: ModelOutput
    match level:
        case Level.TOKENS:
            parser = TokenParser(model.syntax, prompt_ids=prompt.ids, schemas=schemas, watch=watch)
            output = TokenOutput(parser, request)
        case Level.TEXT:
            tail = request.prompt_text.removesuffix(prompt.begun)
            literal = OutputParser(model.syntax.literal, schemas=schemas, prompt_tail=tail, watch=watch)
            output = TextOutput(literal, request, model.tokenizer)
        case Level.CHAT:
            output = ChatOutput(request, model.tokenizer)
    return output if scores is None else ScoredOutput(output, scores)


class TokenOutput:
    """Ids up to the end of the generation: a stop id, or as many as were asked for. What comes behind means nothing."""

    def __init__(self, parser: TokenParser, request: GenerationRequest) -> None:
        self.finish: FinishReason | None = None
        self._parser = parser
        self._prompt_tokens = len(request.prompt_ids)
        self._max_tokens = request.max_tokens
        self._stop_ids: Collection[int] = frozenset(request.stop_ids)
        self._tokens = 0
        self._reasoning_tokens = 0

    def begin(self, text: str) -> list[Segment]:
        return self._parser.feed(self._parser.encode(text))

    def take(self, chunk: EngineChunk) -> list[Segment]:
        segments: list[Segment] = []
        for run in self._parser.runs(self._wanted(chunk.token_ids)):
            if self._parser.in_reasoning:
                self._reasoning_tokens += len(run)
            segments += self._parser.feed(run)
        if chunk.finish is not None:
            self._end(chunk.finish)
        return segments

    def end(self, *, cut_off: bool) -> list[Segment]:
        return self._parser.finish(cut_off=cut_off)

    def usage(self) -> Usage:
        return Usage(self._prompt_tokens, self._tokens, self._reasoning_tokens)

    def _wanted(self, token_ids: Sequence[int]) -> list[int]:
        """Counts the ids up to the end: those that mean something."""
        wanted: list[int] = []
        for token_id in token_ids:
            if self.finish is not None:
                break
            self._tokens += 1
            if token_id in self._stop_ids:
                self._end(FinishReason.STOP)
                break
            wanted.append(token_id)
            if self._tokens >= self._max_tokens:
                self._end(FinishReason.LENGTH)
        return wanted

    def _end(self, reason: FinishReason) -> None:
        if self.finish is None:
            self.finish = reason


class TextOutput:
    """Text as it comes; markers are found by their spelling."""

    def __init__(self, parser: OutputParser, request: GenerationRequest, tokenizer: ModelTokenizer) -> None:
        self.finish: FinishReason | None = None
        self._parser = parser
        self._count = _Count(request, tokenizer)

    def begin(self, text: str) -> list[Segment]:
        return self._parser.feed(text)

    def take(self, chunk: EngineChunk) -> list[Segment]:
        self._count.note(chunk, chunk.text, is_reasoning=self._parser.in_reasoning)
        self.finish = self.finish or chunk.finish
        return self._parser.feed(chunk.text) if chunk.text else []

    def end(self, *, cut_off: bool) -> list[Segment]:
        return self._parser.finish(cut_off=cut_off)

    def usage(self) -> Usage:
        return self._count.usage()


class ChatOutput:
    """Segments as another server read them."""

    def __init__(self, request: GenerationRequest, tokenizer: ModelTokenizer) -> None:
        self.finish: FinishReason | None = None
        self._count = _Count(request, tokenizer)

    def begin(self, text: str) -> list[Segment]:
        return []

    def take(self, chunk: EngineChunk) -> list[Segment]:
        for segment in chunk.segments:
            self._count.note(chunk, _text_of(segment), is_reasoning=isinstance(segment, Reasoning))
        self._count.note(chunk, "", is_reasoning=False)
        self.finish = self.finish or chunk.finish
        return list(chunk.segments)

    def end(self, *, cut_off: bool) -> list[Segment]:
        return []

    def usage(self) -> Usage:
        return self._count.usage()


class _Count:
    """What the engine says that it counted; until it does, what the tokenizer makes of the text."""

    def __init__(self, request: GenerationRequest, tokenizer: ModelTokenizer) -> None:
        self._prompt_tokens = len(request.prompt_ids)
        self._tokenizer = tokenizer
        self._said: Usage | None = None
        self._texts: tuple[list[str], list[str]] = ([], [])  # not reasoning, reasoning

    def note(self, chunk: EngineChunk, text: str, *, is_reasoning: bool) -> None:
        self._said = chunk.usage or self._said
        if text:
            self._texts[is_reasoning].append(text)

    def usage(self) -> Usage:
        spoken, reasoned = (len(self._tokenizer.encode("".join(texts))) for texts in self._texts)
        if self._said is None:
            return Usage(self._prompt_tokens, spoken + reasoned, reasoned)
        said = self._said
        reasoning = said.reasoning_tokens or min(reasoned, said.output_tokens)
        return Usage(said.input_tokens, said.output_tokens, reasoning, said.cached_tokens)


def _text_of(segment: Segment) -> str:
    match segment:
        case Text(text) | Reasoning(text) | Arguments(text) | ScoredText(text):
            return text
        case CallBegin(name):
            return name
    return ""
