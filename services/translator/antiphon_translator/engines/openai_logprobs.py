"""Matches the log probabilities in the chunks of chat completions with the texts of their tokens.

A server sends log probabilities for all tokens, also for those that it parsed as reasoning, as a call, or as a marker
of these. They may come before their text, which a server holds back until its parser knows what the text is. A text
that cannot be matched gets all tokens that wait (logprobs/alignment.py). When a server sends none with its first text,
all log probabilities of the stream are left out (output/scored_output.py).
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from math import inf, isnan
from typing import Any

from antiphon_translator.engines.chat_calls import CallPiece
from antiphon_translator.engines.chat_delta import Kind
from antiphon_translator.engines.chat_stream import ChunkReader
from antiphon_translator.engines.lenient_json import without_surrogates
from antiphon_translator.engines.stream_budget import PIECE_CHARS
from antiphon_translator.engines.unread import UnreadReport
from antiphon_translator.engines.usage_bounds import UsageBounds
from antiphon_translator.generation import ChatPrompt, GenerationRequest
from antiphon_translator.logprobs.alignment import Alignment
from antiphon_translator.logprobs.requested import LEFT_OUT
from antiphon_translator.parsing.segments import Candidate, ScoredToken, Segment, Text
from antiphon_translator.parsing.traced import TracedOutput

log = logging.getLogger(__name__)

_IMAGE = b'"image_url":{'


def reader(request: GenerationRequest, unread: UnreadReport, body: bytes) -> ChunkReader:
    """A reader of the chunks that answer a request, which was sent as `body`."""
    bounds = UsageBounds.of(request, sent_bytes=len(body), images=body.count(_IMAGE))
    names = tuple(tool["function"]["name"] for tool in request.prompt_as(ChatPrompt).tools)
    if request.top_logprobs is None:
        return ChunkReader(unread, names, request.answer_stops, bounds)
    return ScoredChunkReader(unread, names, request.answer_stops, bounds, top=request.top_logprobs)


class ScoredChunkReader(ChunkReader):
    """Reads the chunks of one stream with log probabilities, `top` alternatives of each token among them."""

    def __init__(
        self,
        unread: UnreadReport,
        names: Collection[str] = (),
        stops: Sequence[str] = (),
        bounds: UsageBounds | None = None,
        *,
        top: int,
    ) -> None:
        super().__init__(unread, names, bounds=bounds)
        self._output = TracedOutput(lambda: self._position, stops)
        self._top = top
        self._alignment = Alignment()
        self._position = 0
        self._has_logprobs = False
        self._lacks_logprobs = False
        """The server sent no log probabilities with its first text, or some that cannot be read."""

    def _take_segments(self) -> list[Segment]:
        segments = self._alignment.score(super()._take_segments())
        if self._lacks_logprobs:
            self._alignment.forget()
        return segments

    def _take_choice(self, choice: Mapping[str, Any]) -> None:
        if not self._lacks_logprobs:
            self._take_logprobs(choice.get("logprobs"))
        super()._take_choice(choice)

    def _take_logprobs(self, given: object) -> None:
        entries = given.get("content") if isinstance(given, dict) else None
        try:
            tokens = [_token(entry, self._top) for entry in entries or ()]
        except (KeyError, TypeError, AttributeError, ValueError):
            self._unread.note("logprobs", given)
            self._leave_out()
            return
        self.content_chars += PIECE_CHARS * len(tokens)
        for token in tokens:
            self._has_logprobs = True
            self._alignment.token(token, token.written)

    def _leave_out(self) -> None:
        log.warning(LEFT_OUT)
        self._lacks_logprobs = True

    def _write(self, kind: Kind, text: str) -> None:
        if kind is Text and not self._has_logprobs and not self._lacks_logprobs:
            self._leave_out()
        self._alignment.text(text)
        self._position += len(text)
        super()._write(kind, text)

    def _take_call(self, piece: CallPiece) -> None:
        super()._take_call(piece)
        self._alignment.forget()


def _token(entry: Mapping[str, Any], top: int) -> ScoredToken:
    others = (entry.get("top_logprobs") or ())[:top]
    return ScoredToken(
        _token_bytes(entry), _logprob(entry), tuple(Candidate(_token_bytes(o), _logprob(o)) for o in others)
    )


def _token_bytes(entry: Mapping[str, Any]) -> bytes:
    """The bytes of a token; where the server leaves them out, those of its text. ValueError: no list of bytes."""
    given = entry.get("bytes")
    if given is None:
        return without_surrogates(str(entry["token"])).encode()
    if not isinstance(given, list):  # of a number, `bytes` makes that many zeros
        raise ValueError(given)
    return bytes(given)


def _logprob(entry: Mapping[str, Any]) -> float:
    """Minus infinity is null in JSON. ValueError: no number."""
    found = -inf if entry["logprob"] is None else float(entry["logprob"])
    if isnan(found):
        raise ValueError(entry["logprob"])
    return found
