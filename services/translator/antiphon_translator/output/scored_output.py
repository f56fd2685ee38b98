"""The output of a generation with log probabilities: any other output, whose texts get the tokens that wrote them.

Made only where log probabilities are wanted; without them nothing of this runs. An engine that was asked for them and
gives none from its first token on costs nobody the answer: the text is told without them, as `logprobs: []`, and the
log says so. One that stops giving them in the middle is at fault, for half of a list looks like a whole one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from antiphon_core.errors import EngineFault
from antiphon_translator.generation import (
    ChatChunk,
    EngineChunk,
    FinishReason,
    GenerationRequest,
    TextChunk,
    TokenChunk,
    TokenLogprob,
    TokenPrompt,
    Usage,
    wrong_level,
)
from antiphon_translator.logprobs.alignment import Alignment
from antiphon_translator.logprobs.requested import LEFT_OUT
from antiphon_translator.parsing.segments import Candidate, ScoredToken, Segment
from antiphon_translator.parsing.token_parser import TokenSyntax
from antiphon_translator.parsing.traced import Watch
from antiphon_translator.tokenizer.tokens import ModelTokenizer

if TYPE_CHECKING:
    from antiphon_translator.output.outputs import ReadOutput

log = logging.getLogger(__name__)


class Scores:
    """The log probabilities of one generation, on their way to its texts."""

    def __init__(self, tokenizer: ModelTokenizer, spelling: Mapping[int, str], top: int) -> None:
        """`spelling` is what control tokens are in the text that is read; `top` alternatives are shown."""
        self._alignment = Alignment()
        self._tokenizer = tokenizer
        self._spelling = spelling
        self._top = top

    @classmethod
    def wanted_by(cls, request: GenerationRequest, syntax: TokenSyntax) -> Scores | None:
        """None: not wanted."""
        if request.top_logprobs is None:
            return None
        spelling = syntax.alphabet.character_of if isinstance(request.prompt, TokenPrompt) else {}
        return cls(syntax.tokenizer, spelling, request.top_logprobs)

    @property
    def watch(self) -> Watch:
        """Is told all text that is read."""
        return self._alignment.text

    def came(self, one: TokenLogprob) -> None:
        """The next token of the model."""
        bytes_of = self._tokenizer.bytes_of
        written = bytes_of(one.token_id)
        top = tuple(Candidate(bytes_of(other.token_id), other.logprob) for other in one.top[: self._top])
        marker = self._spelling.get(one.token_id) or self._tokenizer.added.get(one.token_id)
        self._alignment.token(ScoredToken(written, one.logprob, top), marker or written)

    def forget(self) -> None:
        """No text is read any more of the tokens that came."""
        self._alignment.forget()

    def given_to(self, segments: list[Segment]) -> list[Segment]:
        return self._alignment.scored(segments)


class ScoredOutput:
    """Implements outputs.ReadOutput."""

    def __init__(self, output: ReadOutput, scores: Scores) -> None:
        self._output = output
        self._scores = scores
        self._have_come = False
        self._goes_without = False
        """The engine gave none for its first text."""

    @property
    def finish(self) -> FinishReason | None:
        return self._output.finish

    @property
    def in_reasoning(self) -> bool:
        return self._output.in_reasoning

    def write(self, text: str) -> list[Segment]:
        return self._told(self._output.write(text))

    def take(self, chunk: EngineChunk) -> list[Segment]:
        if isinstance(chunk, ChatChunk):
            raise wrong_level(chunk)
        self._check(chunk)
        segments: list[Segment] = []
        for piece in _pieces(chunk):
            self._note(piece)
            segments += self._output.take(piece)
        return self._told(segments)

    def resume(self, chunk: EngineChunk) -> None:
        if isinstance(chunk, ChatChunk):
            raise wrong_level(chunk)
        for piece in _pieces(chunk):
            self._note(piece)
            self._output.resume(piece)
        if (
            isinstance(chunk, TextChunk) and chunk.text
        ):  # it ends where the other generation was given up, its tokens do not
            self._scores.forget()

    def end(self, *, cut_off: bool) -> list[Segment]:
        return self._told(self._output.end(cut_off=cut_off))

    def usage(self) -> Usage:
        return self._output.usage()

    @property
    def must_count(self) -> bool:
        return self._output.must_count

    def follow_up(self) -> GenerationRequest | None:
        return self._output.follow_up()

    def _note(self, piece: TokenChunk | TextChunk) -> None:
        """Tokens behind the end mean nothing."""
        if self.finish is None and not self._goes_without:
            for one in piece.logprobs:
                self._scores.came(one)

    def _told(self, segments: list[Segment]) -> list[Segment]:
        told = self._scores.given_to(segments)
        if self._goes_without:
            self._scores.forget()
        return told

    def _check(self, chunk: TokenChunk | TextChunk) -> None:
        """EngineFault: log probabilities came, and now a text comes without."""
        had_come = self._have_come
        self._have_come = had_come or bool(chunk.logprobs)
        if isinstance(chunk, TokenChunk):
            is_without = bool(chunk.ids) and len(chunk.logprobs) != len(chunk.ids)
        else:
            is_without = bool(chunk.text) and not self._have_come
        if not is_without or self._goes_without:
            return
        if self._have_come:
            raise EngineFault("The engine left out some of the log probabilities that it was asked for.")
        log.warning(LEFT_OUT)
        self._goes_without = True


def _pieces(chunk: TokenChunk | TextChunk) -> Iterator[TokenChunk | TextChunk]:
    """A chunk of ids as chunks of one, so that what an id wrote does not depend on how they were grouped."""
    if isinstance(chunk, TextChunk) or len(chunk.ids) < 2:
        yield chunk
        return
    last = len(chunk.ids) - 1
    for index, token_id in enumerate(chunk.ids):
        finish = chunk.finish if index == last else None
        logprobs = chunk.logprobs[index : index + 1]
        yield TokenChunk((token_id,), finish=finish, logprobs=logprobs, cached_blocks=chunk.cached_blocks)
