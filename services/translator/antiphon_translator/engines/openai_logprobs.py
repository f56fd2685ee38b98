"""Matches the log probabilities in the chunks of chat completions with the texts of their tokens.

A server sends log probabilities for all tokens, also for those that it parsed as reasoning, as a call, or as a marker
of these. They may come before their text, which a server holds back until its parser knows what the text is. A text
that cannot be matched gets all tokens that wait (logprobs/alignment.py). When a server sends none with its first text,
all log probabilities of the stream are left out (output/scored_output.py).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from math import inf
from typing import Any

from antiphon_translator.engines.openai_wire import ChunkReader, reasoning_in
from antiphon_translator.generation import GenerationRequest
from antiphon_translator.logprobs.alignment import Alignment
from antiphon_translator.logprobs.requested import LEFT_OUT
from antiphon_translator.parsing.segments import Candidate, ScoredToken, Segment
from antiphon_translator.parsing.traced import TracedOutput

log = logging.getLogger(__name__)


def reader(request: GenerationRequest) -> ChunkReader:
    """A reader of the chunks that answer a request."""
    return ChunkReader() if request.top_logprobs is None else ScoredChunkReader(request.top_logprobs)


class ScoredChunkReader(ChunkReader):
    """Reads the chunks of one stream with log probabilities, `top` alternatives of each token among them."""

    def __init__(self, top: int) -> None:
        super().__init__()
        self._output = TracedOutput(lambda: self._position)
        self._top = top
        self._alignment = Alignment()
        self._position = 0
        self._has_logprobs = False
        self._lacks_logprobs = False
        """The server sent no log probabilities with its first text."""

    def _take_segments(self) -> list[Segment]:
        segments = self._alignment.scored(super()._take_segments())
        if self._lacks_logprobs:
            self._alignment.forget()
        return segments

    def _take_choice(self, choice: Mapping[str, Any]) -> None:
        for entry in (choice.get("logprobs") or {}).get("content") or ():
            if self._lacks_logprobs:
                break
            self._has_logprobs = True
            token = _token(entry, self._top)
            self._alignment.token(token, token.written)
        super()._take_choice(choice)

    def _take(self, delta: Mapping[str, Any]) -> None:
        if delta.get("content") and not self._has_logprobs and not self._lacks_logprobs:
            log.warning(LEFT_OUT)
            self._lacks_logprobs = True
        for text in (reasoning_in(delta), delta.get("content") or ""):
            self._alignment.text(text)
            self._position += len(text)
        super()._take(delta)
        if delta.get("tool_calls"):
            self._alignment.forget()


def _token(entry: Mapping[str, Any], top: int) -> ScoredToken:
    others = (entry.get("top_logprobs") or ())[:top]
    return ScoredToken(_written(entry), _logprob(entry), tuple(Candidate(_written(o), _logprob(o)) for o in others))


def _written(entry: Mapping[str, Any]) -> bytes:
    """The bytes of a token; where the server leaves them out, those of its text."""
    given = entry.get("bytes")
    return bytes(given) if given is not None else str(entry["token"]).encode()


def _logprob(entry: Mapping[str, Any]) -> float:
    """Minus infinity is null in JSON."""
    return -inf if entry["logprob"] is None else float(entry["logprob"])
