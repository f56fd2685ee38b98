"""An answer that must match a guide, of a model that may reason or call a tool before it answers.

A guide holds for everything from the first token on: it would forbid the reasoning and the call. So the model begins
as it likes, and is read piece by piece. Where its answer begins, that generation is given up and asked for once more,
with the guide: the prompt and all that was written up to the answer; the unguided beginning of the answer is
forgotten. A server with a prefix cache has nearly nothing to do again.

A model that ends without any answer is asked the same way. One that calls a tool has not answered, and is left alone;
neither is commentary an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

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
    Usage,
    wrong_level,
)
from antiphon_translator.output import outputs
from antiphon_translator.output.outputs import ModelOutput, ReadOutput
from antiphon_translator.parsing.segments import Break, CallBegin, ScoredText, Segment, Text
from antiphon_translator.tokenizer.tokens import ModelTokenizer
from antiphon_translator.turn.turn_plan import TurnPlan

COMMENTARY = "commentary"
ANSWER_SUFFIX = "-answer"
"""Of the guided generation's id: what stops the one that was given up, by its id, must not find this one."""


def output_of(plan: TurnPlan) -> ModelOutput:
    """The output of the turn's generation, which may ask for a second one, of the answer alone."""
    if plan.answer_guide is None:
        return outputs.output_of(plan.model, plan.prompt, plan.request)
    anew = partial(outputs.read_output_of, plan.model, plan.prompt, plan.request)
    return GuidedOutput(anew, plan.request, plan.answer_guide, plan.model.tokenizer)


class GuidedOutput:
    """The output of a turn with a guide for its answer. `anew` makes an output of the turn that has read nothing."""

    def __init__(
        self, anew: Callable[[], ReadOutput], request: GenerationRequest, guide: Guide, tokenizer: ModelTokenizer
    ) -> None:
        self._anew = anew
        self._inner = anew()
        self._request = request
        self._guide = guide
        self._tokenizer = tokenizer
        self._written: list[TokenChunk | TextChunk] = []
        self._kept = 0
        """So much of what was written comes before any answer."""
        self._phase: str | None = None
        self._answers = False
        self._watches = True

    @property
    def finish(self) -> FinishReason | None:
        return FinishReason.STOP if self._answers else self._inner.finish

    def write(self, text: str) -> list[Segment]:
        return self._inner.write(text)

    def take(self, chunk: EngineChunk) -> list[Segment]:
        if isinstance(chunk, ChatChunk):
            raise wrong_level(chunk)
        segments: list[Segment] = []
        for piece in _pieces(chunk):
            if not self._watches:
                segments += self._inner.take(piece)
            elif self.finish is None:
                segments += self._watch(piece)
        if not self._answers:
            segments += self._inner.take(_without_content(chunk))
        return segments

    def end(self, *, cut_off: bool) -> list[Segment]:
        return self._inner.end(cut_off=cut_off)

    def usage(self) -> Usage:
        return self._inner.usage()

    @property
    def must_count(self) -> bool:
        return self._inner.must_count

    def follow_up(self) -> GenerationRequest | None:
        """The guided generation of the answer, if one is wanted."""
        if not self._watches or not (self._answers or self._ended_before_answering()):
            return None
        prompt, kept = _behind(self._request, self._written[: self._kept])
        self._watches = self._answers = False
        self._inner = self._anew()
        self._inner.resume(kept)
        return replace(
            self._request,
            request_id=self._request.request_id + ANSWER_SUFFIX,
            prompt=prompt,
            max_tokens=max(self._request.max_tokens - self._inner.usage().output_tokens, 1),
            guide=self._guide,
        )

    def _ended_before_answering(self) -> bool:
        """Whether the model ended by itself: neither a stop text nor the length did it."""
        return self._inner.finish is not FinishReason.LENGTH and not self._request.stop

    def _watch(self, piece: TokenChunk | TextChunk) -> list[Segment]:
        """Reads a piece; returns its segments unless they belong to the answer."""
        self._written.append(piece)
        precedes = self._inner.in_reasoning or self._only_separates(piece)
        told = self._inner.take(piece)
        self._note_phase(told)
        if self._is_answer(told):
            self._answers = True
            return []
        if (told or precedes) and self._inner.finish is None:
            self._kept = len(self._written)
        if any(isinstance(segment, CallBegin) for segment in told):
            self._watches = False
        return told

    def _only_separates(self, piece: TokenChunk | TextChunk) -> bool:
        """Whether it is a control token, or nothing but white space behind what comes before the answer."""
        if isinstance(piece, TokenChunk) and any(token_id in self._tokenizer.added for token_id in piece.ids):
            return True
        text = piece.text if isinstance(piece, TextChunk) else self._tokenizer.decode(piece.ids)
        return not text.strip() and self._kept == len(self._written) - 1

    def _note_phase(self, told: Iterable[Segment]) -> None:
        for segment in told:
            if isinstance(segment, Break):
                self._phase = segment.phase

    def _is_answer(self, told: Iterable[Segment]) -> bool:
        return self._phase != COMMENTARY and any(isinstance(segment, Text | ScoredText) for segment in told)


def _pieces(chunk: TokenChunk | TextChunk) -> Iterator[TokenChunk | TextChunk]:
    """A chunk, one id or one character at a time. The log probabilities of a text all come before it."""
    if isinstance(chunk, TokenChunk):
        for index, token_id in enumerate(chunk.ids):
            yield TokenChunk((token_id,), logprobs=chunk.logprobs[index : index + 1])
        return
    if chunk.logprobs:
        yield TextChunk(logprobs=chunk.logprobs)
    yield from map(TextChunk, chunk.text)


def _without_content(chunk: TokenChunk | TextChunk) -> TokenChunk | TextChunk:
    """The end and the counts of a chunk, without its ids or text."""
    if isinstance(chunk, TokenChunk):
        return TokenChunk(finish=chunk.finish, cached_blocks=chunk.cached_blocks)
    return TextChunk(finish=chunk.finish, usage=chunk.usage)


def _behind(request: GenerationRequest, pieces: Sequence[TokenChunk | TextChunk]) -> tuple[Prompt, EngineChunk]:
    """The prompt of a request with these pieces behind it, and the pieces as one."""
    logprobs = tuple(one for piece in pieces for one in piece.logprobs)
    if isinstance(request.prompt, TokenPrompt):
        ids = tuple(token_id for piece in pieces if isinstance(piece, TokenChunk) for token_id in piece.ids)
        return TokenPrompt((*request.prompt.ids, *ids)), TokenChunk(ids, logprobs=logprobs)
    prompt = request.prompt_as(TextPrompt)
    text = "".join(piece.text for piece in pieces if isinstance(piece, TextChunk))
    return replace(prompt, text=prompt.text + text), TextChunk(text, logprobs=logprobs)
