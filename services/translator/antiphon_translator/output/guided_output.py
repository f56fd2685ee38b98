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

from antiphon_translator.generation import EngineChunk, FinishReason, GenerationRequest, Guide, Level, Usage
from antiphon_translator.models.served_model import ServedModel
from antiphon_translator.output.outputs import ModelOutput, ReadOutput, output_of, read_output_of
from antiphon_translator.parsing.segments import Break, CallBegin, ScoredText, Segment, Text
from antiphon_translator.tokenizer.tokens import ModelTokenizer
from antiphon_translator.turn.turn_prompt import TurnPrompt

COMMENTARY = "commentary"
ANSWER_SUFFIX = "-answer"
"""Of the guided generation's id: what stops the one that was given up, by its id, must not find this one."""


def guided(
    level: Level, model: ServedModel, prompt: TurnPrompt, request: GenerationRequest, guide: Guide | None
) -> tuple[ModelOutput, GenerationRequest]:
    """The output of a turn whose answer must match `guide`, and the generation to begin with."""
    if prompt.tools.required and level is not Level.CHAT:  # there will be no answer, but a call
        request = replace(request, guide=prompt.forced.guide)
    elif guide is not None and (level is Level.CHAT or prompt.answers_at_once(model)):
        request = replace(request, guide=guide)
    elif guide is not None:
        first = request

        def anew() -> ReadOutput:
            return read_output_of(level, model, prompt, first)

        return GuidedOutput(anew, request, guide, model.tokenizer), request
    return output_of(level, model, prompt, request), request


class GuidedOutput:
    """Implements outputs.ModelOutput. `anew` makes an output of the same turn that has read nothing yet."""

    def __init__(
        self, anew: Callable[[], ReadOutput], request: GenerationRequest, guide: Guide, tokenizer: ModelTokenizer
    ) -> None:
        self._anew = anew
        self._inner = anew()
        self._request = request
        self._guide = guide
        self._tokenizer = tokenizer
        self._written: list[EngineChunk] = []
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
        segments: list[Segment] = []
        pieces = _pieces(chunk)
        for piece in pieces:
            if not self._watches:
                segments += self._inner.take(piece)
            elif self.finish is None:
                segments += self._watch(piece)
        if not self._answers:
            segments += self._inner.take(
                EngineChunk(finish=chunk.finish, usage=chunk.usage, cached_blocks=chunk.cached_blocks)
            )
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
        kept = _joined(self._written[: self._kept])
        self._watches = self._answers = False
        self._inner = self._anew()
        self._inner.resume(kept)
        return replace(
            self._request,
            request_id=self._request.request_id + ANSWER_SUFFIX,
            prompt_ids=(*self._request.prompt_ids, *kept.token_ids),
            prompt_text=self._request.prompt_text + kept.text,
            max_tokens=max(self._request.max_tokens - self._inner.usage().output_tokens, 1),
            guide=self._guide,
        )

    def _ended_before_answering(self) -> bool:
        """Whether the model ended by itself: neither a stop text nor the length did it."""
        return self._inner.finish is not FinishReason.LENGTH and not self._request.stop

    def _watch(self, piece: EngineChunk) -> list[Segment]:
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

    def _only_separates(self, piece: EngineChunk) -> bool:
        """Whether it is a control token, or nothing but white space behind what comes before the answer."""
        if any(token_id in self._tokenizer.added for token_id in piece.token_ids):
            return True
        text = piece.text or self._tokenizer.decode(piece.token_ids)
        return not text.strip() and self._kept == len(self._written) - 1

    def _note_phase(self, told: Iterable[Segment]) -> None:
        for segment in told:
            if isinstance(segment, Break):
                self._phase = segment.phase

    def _is_answer(self, told: Iterable[Segment]) -> bool:
        return self._phase != COMMENTARY and any(isinstance(segment, Text | ScoredText) for segment in told)


def _pieces(chunk: EngineChunk) -> Iterator[EngineChunk]:
    """A chunk, one id or one character at a time. The log probabilities of a text all come before it."""
    for index, token_id in enumerate(chunk.token_ids):
        yield EngineChunk((token_id,), logprobs=chunk.logprobs[index : index + 1])
    if not chunk.token_ids:
        if chunk.logprobs:
            yield EngineChunk(logprobs=chunk.logprobs)
        yield from (EngineChunk(text=character) for character in chunk.text)


def _joined(pieces: Sequence[EngineChunk]) -> EngineChunk:
    ids = tuple(token_id for piece in pieces for token_id in piece.token_ids)
    logprobs = tuple(one for piece in pieces for one in piece.logprobs)
    return EngineChunk(ids, text="".join(piece.text for piece in pieces), logprobs=logprobs)
