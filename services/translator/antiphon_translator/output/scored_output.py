"""The output of a generation with log probabilities: adds the tokens that wrote them to the texts of another output.

It is used only if the request wants log probabilities. If the engine leaves them out from the first token on, the text
is sent with `logprobs: []`, and a warning is logged. If an engine of ids leaves them out for some ids only, the
response fails, because an incomplete list looks like a complete one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence

from antiphon_core.errors import EngineFault
from antiphon_core.ports.translator import Usage
from antiphon_translator.generation import (
    ChatChunk,
    EngineChunk,
    FinishReason,
    GenerationRequest,
    TextChunk,
    TokenChunk,
    TokenLogprob,
    TokenPrompt,
    wrong_level,
)
from antiphon_translator.logprobs.alignment import Alignment
from antiphon_translator.logprobs.requested import LEFT_OUT
from antiphon_translator.output.model_output import ReadOutput
from antiphon_translator.parsing.segments import Candidate, ScoredToken, Segment
from antiphon_translator.parsing.token_syntax import TokenSyntax
from antiphon_translator.parsing.traced import Watch
from antiphon_translator.tokenizer.tokens import ModelTokenizer

log = logging.getLogger(__name__)


class Scores:
    """The log probabilities of one generation, until its texts get them."""

    def __init__(self, tokenizer: ModelTokenizer, spelling: Mapping[int, str], top: int) -> None:
        """`spelling` has the characters of control tokens in the text that is read. `top` alternatives are shown."""
        self._alignment = Alignment()
        self._tokenizer = tokenizer
        self._spelling = spelling
        self._top = top

    @classmethod
    def of(cls, request: GenerationRequest, syntax: TokenSyntax, *, top: int) -> Scores:
        """The scores for a request that wants them."""
        spelling = syntax.alphabet.character_of if isinstance(request.prompt, TokenPrompt) else {}
        return cls(syntax.tokenizer, spelling, top)

    @property
    def watch(self) -> Watch:
        """The callback for all text that is read."""
        return self._alignment.text

    def add_token(self, one: TokenLogprob) -> None:
        """Takes the next token of the model."""
        bytes_of = self._tokenizer.bytes_of
        written = bytes_of(one.token_id)
        top = tuple(Candidate(bytes_of(other.token_id), other.logprob) for other in one.top[: self._top])
        marker = self._spelling.get(one.token_id) or self._tokenizer.added.get(one.token_id)
        self._alignment.token(ScoredToken(written, one.logprob, top), marker or written)

    def forget(self) -> None:
        """Drops the tokens whose text was not read yet."""
        self._alignment.forget()

    def score(self, segments: list[Segment]) -> list[Segment]:
        """The segments, with the tokens of their texts."""
        return self._alignment.score(segments)


class ScoredOutput:
    """A ReadOutput around another one, whose texts get their tokens."""

    def __init__(self, output: ReadOutput, scores: Scores) -> None:
        self._output = output
        self._scores = scores
        self._has_logprobs = False
        self._lacks_logprobs = False
        """Whether the engine gave none for its first text."""

    @property
    def finish(self) -> FinishReason | None:
        return self._output.finish

    @property
    def is_in_reasoning(self) -> bool:
        return self._output.is_in_reasoning

    @property
    def may_be_stopped(self) -> bool:
        return self._output.may_be_stopped

    def write(self, text: str) -> list[Segment]:
        return self._score(self._output.write(text))

    def take(self, chunk: EngineChunk) -> list[Segment]:
        if isinstance(chunk, ChatChunk):
            raise wrong_level(chunk)
        self._check(chunk)
        segments: list[Segment] = []
        for piece in _pieces(chunk):
            self._note(piece)
            segments += self._output.take(piece)
        return self._score(segments)

    def resume(self, chunk: EngineChunk) -> None:
        if isinstance(chunk, ChatChunk):
            raise wrong_level(chunk)
        for piece in _pieces(chunk):
            self._note(piece)
            self._output.resume(piece)
        if isinstance(chunk, TextChunk) and chunk.text:
            # The text ends where the earlier generation was cancelled; its tokens may go on behind that.
            self._scores.forget()

    def end(self, *, cut_off: bool) -> list[Segment]:
        return self._score(self._output.end(cut_off=cut_off))

    def usage(self) -> Usage:
        return self._output.usage()

    @property
    def written_ids(self) -> Sequence[int]:
        return self._output.written_ids

    @property
    def uncounted_bytes(self) -> int:
        return self._output.uncounted_bytes

    @property
    def must_count_prompt(self) -> bool:
        return self._output.must_count_prompt

    @property
    def reads_to_the_end(self) -> bool:
        return self._output.reads_to_the_end

    def follow_up(self) -> GenerationRequest | None:
        return self._output.follow_up()

    def _note(self, piece: TokenChunk | TextChunk) -> None:
        """Takes the tokens of a piece, unless the generation has ended."""
        if self.finish is None and not self._lacks_logprobs:
            for one in piece.logprobs:
                self._scores.add_token(one)

    def _score(self, segments: list[Segment]) -> list[Segment]:
        scored = self._scores.score(segments)
        if self._lacks_logprobs:
            self._scores.forget()
        return scored

    def _check(self, chunk: TokenChunk | TextChunk) -> None:
        """Checks that a chunk has log probabilities. EngineFault: some ids have them, and others do not."""
        self._has_logprobs = self._has_logprobs or bool(chunk.logprobs)
        if isinstance(chunk, TokenChunk):
            is_without = bool(chunk.ids) and len(chunk.logprobs) != len(chunk.ids)
        else:
            is_without = bool(chunk.text) and not self._has_logprobs
        if not is_without or self._lacks_logprobs:
            return
        if self._has_logprobs:
            raise EngineFault("The engine left out some of the log probabilities that it was asked for.")
        log.warning(LEFT_OUT)
        self._lacks_logprobs = True


def _pieces(chunk: TokenChunk | TextChunk) -> Iterator[TokenChunk | TextChunk]:
    """Splits a chunk of ids into chunks of one id, so that the text of each id is known."""
    if isinstance(chunk, TextChunk) or len(chunk.ids) < 2:
        yield chunk
        return
    last = len(chunk.ids) - 1
    for index, token_id in enumerate(chunk.ids):
        logprobs = chunk.logprobs[index : index + 1]
        if index < last:
            yield TokenChunk((token_id,), logprobs=logprobs)
        else:
            yield TokenChunk((token_id,), finish=chunk.finish, logprobs=logprobs, facts=chunk.facts)
