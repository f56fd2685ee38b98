"""Turns an engine's chunks into segments and counts tokens: one class for each level of engines.

    TOKENS   ids are parsed and counted here, one by one: the usage is exact
    TEXT     text is parsed here, with markers found by their spelling; the engine counts, or else the tokenizer does
    CHAT     the server has parsed its output; the server counts, or else the tokenizer does

Each class decides when no more chunks are wanted (`finish`), and counts reasoning tokens as exactly as its level
allows. If an engine counts its output but not the reasoning in it, the reasoning tokens are estimated from the share of
its characters: to encode the whole answer again for a slightly better number would take too long.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from antiphon_core.ports.translator import Usage
from antiphon_translator.generation import (
    UNLIMITED,
    ChatChunk,
    ChatPrompt,
    EngineChunk,
    FinishReason,
    GenerationRequest,
    ReportedUsage,
    TextChunk,
    TextPrompt,
    TokenPrompt,
    wrong_level,
)
from antiphon_translator.models.served_model import ServedModel
from antiphon_translator.output.length_guard import LengthGuard
from antiphon_translator.output.model_output import ModelOutput, ReadOutput
from antiphon_translator.output.scored_output import ScoredOutput, Scores
from antiphon_translator.output.token_output import TokenOutput, TokenParser
from antiphon_translator.output.written_text import WrittenText
from antiphon_translator.parsing.parser import OutputParser
from antiphon_translator.parsing.segments import (
    Arguments,
    CallBegin,
    CallEnd,
    Reasoning,
    Refusal,
    ScoredText,
    Segment,
    Text,
)
from antiphon_translator.parsing.traced import Watch
from antiphon_translator.tokenizer.tokens import ModelTokenizer
from antiphon_translator.turn.turn_prompt import TurnPrompt


def output_of(model: ServedModel, prompt: TurnPrompt, request: GenerationRequest) -> ModelOutput:
    """The output of the generation of this request."""
    if isinstance(request.prompt, ChatPrompt):
        return ChatOutput(request, model.tokenizer, prompt.count, is_measured=model.is_measured)
    return read_output_of(model, prompt, request)


def read_output_of(model: ServedModel, prompt: TurnPrompt, request: GenerationRequest) -> ReadOutput:
    """The output of a generation of ids or text, which is parsed here. TypeError: the request has a ChatPrompt."""
    if request.top_logprobs is None:
        return _read_output(model, prompt, request)
    scores = Scores.of(request, model.syntax, top=request.top_logprobs)
    return ScoredOutput(_read_output(model, prompt, request, scores.watch), scores)


def _read_output(
    model: ServedModel, prompt: TurnPrompt, request: GenerationRequest, watch: Watch | None = None
) -> ReadOutput:
    """`watch` is called with all text that is read."""
    schemas = prompt.tools.schemas
    if isinstance(request.prompt, TokenPrompt):
        parser = TokenParser(
            model.syntax,
            prompt_ids=prompt.ids,
            schemas=schemas,
            stops=request.stop,
            stop_in_reasoning=request.stop_in_reasoning,
            continues_last=prompt.conversation.continues_last,
            watch=watch,
        )
        return TokenOutput(parser, request)
    tail = request.prompt_as(TextPrompt).text.removesuffix(prompt.forced.beginning)
    literal = OutputParser(
        model.syntax.literal, schemas=schemas, prompt_tail=tail, stops=request.answer_stops, watch=watch
    )
    return TextOutput(literal, request, model.tokenizer)


class TextOutput:
    """The output of an engine of text. Markers are found by their spelling."""

    def __init__(self, parser: OutputParser, request: GenerationRequest, tokenizer: ModelTokenizer) -> None:
        self.finish: FinishReason | None = None
        self._parser = parser
        self._has_server_stops = bool(request.server_stops)
        prompt_tokens = request.prompt_as(TextPrompt).tokens
        self._count = _Count(request, tokenizer, lambda: prompt_tokens, is_measured=True)

    @property
    def is_in_reasoning(self) -> bool:
        return self._parser.is_in_reasoning

    @property
    def may_be_stopped(self) -> bool:
        return self._parser.is_stopped or self._has_server_stops

    def write(self, text: str) -> list[Segment]:
        return self._parser.feed(text)

    def take(self, chunk: EngineChunk) -> list[Segment]:
        if not isinstance(chunk, TextChunk):
            raise wrong_level(chunk)
        self._count.note(chunk)
        self.finish = self.finish or chunk.finish
        if self._count.note_text(chunk.text, is_reasoning=self._parser.is_in_reasoning):
            self.finish = self.finish or FinishReason.LENGTH
        segments = self._parser.feed(chunk.text) if chunk.text else []
        if self._parser.is_stopped:
            self.finish = FinishReason.STOP  # also at the last token that the limit permits
        return segments

    def resume(self, chunk: EngineChunk) -> None:
        if isinstance(chunk, TextChunk):
            self._count.carry(chunk.text)
        self.take(chunk)

    def end(self, *, cut_off: bool) -> list[Segment]:
        return self._parser.finish(cut_off=cut_off)

    def usage(self) -> Usage:
        return self._count.usage()

    @property
    def written_ids(self) -> Sequence[int]:
        return ()

    @property
    def uncounted_bytes(self) -> int:
        return self._count.uncounted_bytes

    @property
    def must_count_prompt(self) -> bool:
        return False

    @property
    def reads_to_the_end(self) -> bool:
        return False

    def follow_up(self) -> None:
        return None


class ChatOutput:
    """The output of a chat server, which has parsed it."""

    def __init__(
        self,
        request: GenerationRequest,
        tokenizer: ModelTokenizer,
        prompt_tokens: Callable[[], int],
        *,
        is_measured: bool = True,
    ) -> None:
        """`prompt_tokens` counts the prompt if the server does not. `is_measured`: the tokenizer is the model's own."""
        self.finish: FinishReason | None = None
        self._count = _Count(request, tokenizer, prompt_tokens, is_measured=is_measured)
        self._is_in_call = False

    def write(self, text: str) -> list[Segment]:
        return []

    def take(self, chunk: EngineChunk) -> Sequence[Segment]:
        if not isinstance(chunk, ChatChunk):
            raise wrong_level(chunk)
        if chunk.usage is not None or chunk.finish is not None:
            self._count.note(chunk)
            self.finish = self.finish or chunk.finish
        for segment in chunk.segments:
            text = segment.text if type(segment) is Text else _text_of(segment)
            if self._count.note_text(text, is_reasoning=type(segment) is Reasoning):
                self.finish = self.finish or FinishReason.LENGTH
            if type(segment) is CallBegin or type(segment) is CallEnd:
                self._is_in_call = type(segment) is CallBegin
        return chunk.segments

    def end(self, *, cut_off: bool) -> list[Segment]:
        """Ends the call that the server was writing when its stream was lost, or was stopped at a limit."""
        return [CallEnd(is_complete=False)] if self._is_in_call else []

    def usage(self) -> Usage:
        return self._count.usage()

    @property
    def written_ids(self) -> Sequence[int]:
        return ()

    @property
    def uncounted_bytes(self) -> int:
        return self._count.uncounted_bytes

    @property
    def must_count_prompt(self) -> bool:
        return self._count.lacks_input

    @property
    def reads_to_the_end(self) -> bool:
        return True

    def follow_up(self) -> None:
        return None


class _Count:
    """The token count of a TEXT or CHAT output: the engine's usage, or else the tokenizer's count of the text. By the
    latter, a generation that ended at its token limit has that many tokens, even if the text encodes to fewer."""

    def __init__(
        self,
        request: GenerationRequest,
        tokenizer: ModelTokenizer,
        prompt_tokens: Callable[[], int],
        *,
        is_measured: bool,
    ) -> None:
        self._written = WrittenText(tokenizer)
        self._guard = LengthGuard(request.max_tokens, self._written if is_measured else None)
        self._prompt_tokens = prompt_tokens
        self._max_tokens = request.max_tokens
        self._tokenizer = tokenizer
        self._given = ReportedUsage()
        self._is_at_length = False
        self._carried: list[str] = []

    def note(self, chunk: TextChunk | ChatChunk) -> None:
        """Keeps the usage of a chunk, and whether the output ended at its length limit."""
        self._given = chunk.usage or self._given
        self._is_at_length = self._is_at_length or chunk.finish is FinishReason.LENGTH

    def note_text(self, text: str, *, is_reasoning: bool) -> bool:
        """Keeps the text of a message. Returns whether the output is over its limit (length_guard.py)."""
        if not text:
            return False
        data = text.encode()
        self._written.append(data, is_reasoning=is_reasoning)
        if not self._guard.is_passed_by(len(data)):
            return False
        self._is_at_length = True
        return True

    @property
    def uncounted_bytes(self) -> int:
        """The bytes of text that `usage` has to encode, besides the prompt."""
        carried = sum(map(len, self._carried))
        return carried + (self._written.uncounted_bytes if self._given_output is None else 0)

    @property
    def lacks_input(self) -> bool:
        """Whether the server has not counted the prompt."""
        return self._given_input is None

    @property
    def _given_input(self) -> int | None:
        """The server's count of the prompt. No prompt is empty: 0 is a count that the server has not filled in."""
        return self._given.input_tokens or None

    @property
    def _given_output(self) -> int | None:
        """The server's count of the output. A text has at least one token."""
        return self._given.output_tokens or (None if self._written else self._given.output_tokens)

    def carry(self, text: str) -> None:
        """Adds text of an earlier generation. The engine counts it in the prompt, and `usage` in the output."""
        self._carried.append(text)

    def usage(self) -> Usage:
        """The counts of the server, as far as it reports them, and else those of the tokenizer."""
        carried = self._tokens_in("".join(self._carried))
        if self._given_output is None:
            output, reasoning = self._counted_output()
        else:
            output = self._given_output + carried
            reasoning = self._given.reasoning_tokens or self._share_of_reasoning(output)
        prompt = self._prompt_tokens() if self._given_input is None else max(self._given_input - carried, 0)
        cached = None if self._given.cached_tokens is None else min(self._given.cached_tokens, prompt)
        return Usage(prompt, output, min(reasoning, output), cached, lost_to=self._given.lost_to)

    def _counted_output(self) -> tuple[int, int]:
        """The tokens of the output, and of the reasoning in it, by the tokenizer."""
        answer, reasoning = self._written.tokens()
        is_known = self._is_at_length and self._max_tokens != UNLIMITED
        return self._max_tokens if is_known else answer + reasoning, reasoning

    def _share_of_reasoning(self, output_tokens: int) -> int:
        answer, reasoning = self._written.chars
        return round(output_tokens * reasoning / (answer + reasoning)) if reasoning else 0

    def _tokens_in(self, text: str) -> int:
        return len(self._tokenizer.encode_all([text])[0]) if text else 0


def _text_of(segment: Segment) -> str:
    match segment:
        case Text(text) | Reasoning(text) | Refusal(text) | Arguments(text) | ScoredText(text):
            return text
        case CallBegin(name):
            return name
    return ""
