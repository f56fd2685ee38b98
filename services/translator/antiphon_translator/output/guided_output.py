"""Guides the answer of a model that may reason or call a tool before it answers.

An engine applies a guide from the first token on, which would forbid the reasoning and the call. So the first
generation has no guide, and its output is read one id or character at a time. Where the answer begins, that generation
is cancelled and a second one is started with the guide. Its prompt is the first prompt and the output up to the answer;
the unguided beginning of the answer is discarded. A server with a prefix cache computes nearly nothing again.

The second generation also follows a first one that ended without any answer. It does not follow a call. Commentary
before a call is no answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from antiphon_core.ports.translator import Usage
from antiphon_translator.generation import (
    ChatChunk,
    EngineChunk,
    FinishReason,
    GenerationRequest,
    Guide,
    Prompt,
    TextChunk,
    TextPrompt,
    TokenChunk,
    TokenPrompt,
    wrong_level,
)
from antiphon_translator.output import outputs
from antiphon_translator.output.model_output import ReadOutput
from antiphon_translator.parsing.segments import Break, CallBegin, ScoredText, Segment, Text
from antiphon_translator.tokenizer.tokens import ModelTokenizer
from antiphon_translator.turn.turn_plan import TurnPlan

COMMENTARY = "commentary"
ANSWER_SUFFIX = "-answer"
"""The end of the guided generation's request id. Cancelling the first generation by its id must not cancel this one."""


def output_of(plan: TurnPlan, guide: Guide) -> GuidedOutput:
    """The output of a turn with this guide for the answer alone."""
    make_output = partial(outputs.read_output_of, plan.model, plan.prompt, plan.request)
    return GuidedOutput(make_output, plan.request, guide, plan.model.tokenizer)


class GuidedOutput:
    """The output of a turn with a guide for its answer. `make_output` makes an output of the turn for a generation."""

    def __init__(
        self, make_output: Callable[[], ReadOutput], request: GenerationRequest, guide: Guide, tokenizer: ModelTokenizer
    ) -> None:
        self._make_output = make_output
        self._inner = make_output()
        self._first: Usage | None = None
        """The usage of the first generation, once a second one continues it."""
        self._request = request
        self._guide = guide
        self._tokenizer = tokenizer
        self._pieces: list[TokenChunk | TextChunk] = []
        self._kept = 0
        """How many of the pieces come before the answer."""
        self._phase: str | None = None
        self._has_answer_begun = False
        self._is_watching = True
        """Whether the beginning of the answer is looked for: in the first generation, until a call."""

    @property
    def finish(self) -> FinishReason | None:
        return FinishReason.STOP if self._has_answer_begun else self._inner.finish

    def write(self, text: str) -> list[Segment]:
        return self._inner.write(text)

    def take(self, chunk: EngineChunk) -> list[Segment]:
        if isinstance(chunk, ChatChunk):
            raise wrong_level(chunk)
        segments: list[Segment] = []
        for piece in _pieces(chunk):
            if not self._is_watching:
                segments += self._inner.take(piece)
            elif self.finish is None:
                segments += self._watch(piece)
        if not self._has_answer_begun:
            segments += self._inner.take(_without_content(chunk))
        return segments

    def end(self, *, cut_off: bool) -> list[Segment]:
        return self._inner.end(cut_off=cut_off)

    def usage(self) -> Usage:
        usage = self._inner.usage()
        return usage if self._first is None else usage.behind(self._first)

    @property
    def written_ids(self) -> Sequence[int]:
        return self._inner.written_ids

    @property
    def uncounted_bytes(self) -> int:
        return self._inner.uncounted_bytes

    @property
    def must_count_prompt(self) -> bool:
        return self._inner.must_count_prompt

    @property
    def reads_to_the_end(self) -> bool:
        return self._inner.reads_to_the_end

    def follow_up(self) -> GenerationRequest | None:
        """The request for the guided generation of the answer; None if none is needed."""
        if not self._is_watching or not (self._has_answer_begun or self._ended_before_answering()):
            return None
        prompt, kept = _behind(self._request, self._pieces[: self._kept])
        self._is_watching = self._has_answer_begun = False
        self._first, self._inner = self._inner.usage(), self._make_output()
        self._inner.resume(kept)
        return replace(
            self._request,
            request_id=self._request.request_id + ANSWER_SUFFIX,
            prompt=prompt,
            max_tokens=max(self._request.max_tokens - self._inner.usage().output_tokens, 1),
            guide=self._guide,
        )

    def _ended_before_answering(self) -> bool:
        """Whether the model ended by itself, at neither the length limit nor, possibly, a stop sequence."""
        return self._inner.finish is not FinishReason.LENGTH and not self._inner.may_be_stopped

    def _watch(self, piece: TokenChunk | TextChunk) -> list[Segment]:
        """Reads a piece of the first generation. Returns its segments, or none when the answer begins with them."""
        self._pieces.append(piece)
        is_before_answer = self._inner.is_in_reasoning or self._is_separator(piece)
        segments = self._inner.take(piece)
        self._note_phase(segments)
        if self._is_answer(segments):
            self._has_answer_begun = True
            return []
        if (segments or is_before_answer) and self._inner.finish is None:
            self._kept = len(self._pieces)
        if any(isinstance(segment, CallBegin) for segment in segments):
            self._is_watching = False
        return segments

    def _is_separator(self, piece: TokenChunk | TextChunk) -> bool:
        """Whether a piece is a control token, or white space right behind the kept pieces."""
        if isinstance(piece, TokenChunk) and any(token_id in self._tokenizer.added for token_id in piece.ids):
            return True
        text = piece.text if isinstance(piece, TextChunk) else self._tokenizer.decode(piece.ids)
        return not text.strip() and self._kept == len(self._pieces) - 1

    def _note_phase(self, segments: Iterable[Segment]) -> None:
        for segment in segments:
            if isinstance(segment, Break):
                self._phase = segment.phase

    def _is_answer(self, segments: Iterable[Segment]) -> bool:
        return self._phase != COMMENTARY and any(isinstance(segment, Text | ScoredText) for segment in segments)


def _pieces(chunk: TokenChunk | TextChunk) -> Iterator[TokenChunk | TextChunk]:
    """Splits a chunk into single ids or characters. The log probabilities of a text all come before its characters."""
    if isinstance(chunk, TokenChunk):
        for index, token_id in enumerate(chunk.ids):
            yield TokenChunk((token_id,), logprobs=chunk.logprobs[index : index + 1])
        return
    if chunk.logprobs:
        yield TextChunk(logprobs=chunk.logprobs)
    yield from map(TextChunk, chunk.text)


def _without_content(chunk: TokenChunk | TextChunk) -> TokenChunk | TextChunk:
    """The finish reason and the usage of a chunk, without its ids or text."""
    if isinstance(chunk, TokenChunk):
        return TokenChunk(finish=chunk.finish, facts=chunk.facts)
    return TextChunk(finish=chunk.finish, usage=chunk.usage)


def _behind(request: GenerationRequest, pieces: Sequence[TokenChunk | TextChunk]) -> tuple[Prompt, EngineChunk]:
    """The prompt of a request with these pieces appended, and the pieces as one chunk."""
    logprobs = tuple(one for piece in pieces for one in piece.logprobs)
    if isinstance(request.prompt, TokenPrompt):
        ids = tuple(token_id for piece in pieces if isinstance(piece, TokenChunk) for token_id in piece.ids)
        return TokenPrompt((*request.prompt.ids, *ids)), TokenChunk(ids, logprobs=logprobs)
    prompt = request.prompt_as(TextPrompt)
    text = "".join(piece.text for piece in pieces if isinstance(piece, TextChunk))
    return replace(prompt, text=prompt.text + text), TextChunk(text, logprobs=logprobs)
