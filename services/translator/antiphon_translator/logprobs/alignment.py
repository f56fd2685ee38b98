r"""Finds the token that wrote each character, where tokens and text arrive separately and at different times.

    alignment.token(token, b"\xe2")      each token, in the order of the output
    alignment.text("...")                all text that is read, as it is read
    alignment.scored(segments)           texts with the tokens that begin in them

Tokens come before their text, so the text is predicted from their bytes and compared when it comes. Text may be late,
because a character is incomplete or because the parser holds text back. If the text differs from the prediction, tokens
that wrote none of it are skipped. If that does not explain the difference, all pending tokens count as writers of all
of the text, and the text behind it is aligned exactly again.

A token is returned once, with the first of its characters that is shown. A token that wrote the end of a text and white
space or a marker behind it belongs to that text. A token of which nothing is shown belongs to none.
"""

from __future__ import annotations

import codecs
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from antiphon_translator.parsing.segments import ScoredText, ScoredToken, Segment
from antiphon_translator.parsing.traced import Span, TracedText
from antiphon_translator.tokenizer.tokens import REPLACEMENT


@dataclass(slots=True)
class _Place:
    """The characters that a token wrote, counted from the beginning of the output. A part of a character counts as
    one."""

    token: ScoredToken
    start: int
    end: int


class Alignment:
    """The alignment of one generation. It holds the tokens since the last text that was shown."""

    def __init__(self) -> None:
        self._places: deque[_Place] = deque()
        self._read = 0
        self._ahead = ""  # the text that is predicted to be read next
        self._partial = b""  # the bytes of an incomplete character behind it

    # ---- input ----

    def token(self, token: ScoredToken, written: bytes | str) -> None:
        """Takes the next token. It writes these bytes or, if it is a control token, this text."""
        if isinstance(written, str):
            self._ahead += REPLACEMENT if self._partial else ""
            start, self._ahead, self._partial = len(self._ahead), self._ahead + written, b""
        else:
            start = len(self._ahead) + self._add(written)
        end = len(self._ahead) + bool(self._partial)
        if written:
            self._places.append(_Place(token, self._read + start, self._read + end))

    def text(self, text: str) -> None:
        """Takes the next text that is read."""
        if not text:
            return
        begin = self._read
        self._read += len(text)
        at = self._find(text)
        if at is None:
            self._share(begin)
        elif at:
            self._skip(begin, at)
        if at is None or len(text) > len(self._ahead) - at:
            self._partial = b""
        self._ahead = "" if at is None else self._ahead[at + len(text) :]

    def forget(self) -> None:
        """Drops the pending tokens: their text will not be read."""
        while self._places and self._places[-1].start >= self._read:
            self._places.pop()
        self._skip(self._read, len(self._ahead) + 1)
        self._ahead = ""
        self._partial = b""

    # ---- output ----

    def score(self, segments: Iterable[Segment]) -> list[Segment]:
        """Joins neighbouring texts into one segment each, with the tokens that wrote them; passes other segments on."""
        scored: list[Segment] = []
        for are_texts, run in groupby(segments, lambda segment: isinstance(segment, TracedText)):
            if are_texts:
                scored.append(self._join_run(segment for segment in run if isinstance(segment, TracedText)))
            else:
                scored.extend(run)
        return scored

    def _join_run(self, run: Iterable[TracedText]) -> ScoredText:
        texts: list[str] = []
        tokens: list[ScoredToken] = []
        for segment in run:
            texts.append(segment.text)
            tokens += self._take(segment.spans)
        return ScoredText("".join(texts), tuple(tokens))

    def _take(self, spans: Sequence[Span]) -> list[ScoredToken]:
        """The tokens that wrote a part of these spans, and were not taken before."""
        tokens = []
        for start, end in spans:
            while self._places and self._places[0].start < end:
                place = self._places.popleft()
                if place.end > max(start, place.start):
                    tokens.append(place.token)
        return tokens

    # ---- where prediction and text meet ----

    def _add(self, written: bytes) -> bool:
        """Appends bytes to the predicted text. Returns whether an incomplete character before them stays incomplete: it
        becomes U+FFFD, and belongs to the token before."""
        whole = self._partial + written
        text, used = codecs.utf_8_decode(whole, "replace", False)  # not final: the last character may go on
        breaks = bool(self._partial) and text.startswith(REPLACEMENT) and not whole.startswith(REPLACEMENT.encode())
        self._ahead, self._partial = self._ahead + text, whole[used:]
        return breaks

    def _find(self, text: str) -> int | None:
        """The index in the predicted text at which this text begins; None if it is not in there."""
        ahead = self._ahead
        if ahead.startswith(text) or text.startswith(ahead):
            return 0
        if ahead.endswith(text):
            return len(ahead) - len(text)
        at = ahead.find(text)
        return at if at >= 0 else None

    def _skip(self, begin: int, length: int) -> None:
        """Moves the pending tokens back by `length`, because text of that length, predicted at `begin`, never came."""
        for place in reversed(self._places):
            if place.end <= begin:
                return
            place.start = max(min(place.start, begin), place.start - length)
            place.end = max(begin, place.end - length)

    def _share(self, begin: int) -> None:
        """Makes all pending tokens the writers of all text since `begin`."""
        for place in reversed(self._places):
            if place.end <= begin:
                return
            place.start, place.end = min(place.start, begin), self._read
