r"""Which token wrote which characters, where tokens and text come by different ways and at different times.

    alignment.token(token, b"\xe2")      in the order in which they were written
    alignment.text("...")                all text that is read, as it is read
    alignment.scored(segments)           texts with the tokens that begin in them

Tokens come first: what they write is predicted, and the text that comes confirms it. Text may be late, for a character
that is not complete, or because whoever reads it waits for more. Where text is not what was predicted, tokens that
wrote nothing of it are passed over, and if that does not explain it either, the tokens that wait have all written all
of it: what comes behind is exact again.

A token is told once, with the first of its characters that is shown: one that wrote the end of a text and white space
or a marker behind it belongs to that text, and one of which nothing is shown to none.
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
    """Where a token wrote, in characters from the beginning of everything; half of one counts as one."""

    token: ScoredToken
    start: int
    end: int


class Alignment:
    """One generation's. Memory: the tokens since the last text that was shown."""

    def __init__(self) -> None:
        self._places: deque[_Place] = deque()
        self._read = 0
        self._ahead = ""  # what is predicted to be read next
        self._begun = b""  # and what of a character that is not complete

    # ---- what comes in ----

    def token(self, token: ScoredToken, written: bytes | str) -> None:
        """The next token. It writes these bytes, or all by itself, as control tokens do, this text."""
        if isinstance(written, str):
            self._ahead += REPLACEMENT if self._begun else ""
            start, self._ahead, self._begun = len(self._ahead), self._ahead + written, b""
        else:
            start = len(self._ahead) + self._add(written)
        end = len(self._ahead) + bool(self._begun)
        if written:
            self._places.append(_Place(token, self._read + start, self._read + end))

    def text(self, text: str) -> None:
        """The next text."""
        if not text:
            return
        begin = self._read
        self._read += len(text)
        at = self._found(text)
        if at is None:
            self._share(begin)
        elif at:
            self._pass_over(begin, at)
        if at is None or len(text) > len(self._ahead) - at:
            self._begun = b""
        self._ahead = "" if at is None else self._ahead[at + len(text) :]

    def forget(self) -> None:
        """The tokens that wait wrote no text that anybody will read."""
        while self._places and self._places[-1].start >= self._read:
            self._places.pop()
        self._pass_over(self._read, len(self._ahead) + 1)
        self._ahead = ""
        self._begun = b""

    # ---- what goes out ----

    def scored(self, segments: Iterable[Segment]) -> list[Segment]:
        """Joins neighbouring texts into one segment each, with the tokens that wrote them; passes other segments on."""
        told: list[Segment] = []
        for are_texts, run in groupby(segments, lambda segment: isinstance(segment, TracedText)):
            if are_texts:
                told.append(self._joined(segment for segment in run if isinstance(segment, TracedText)))
            else:
                told.extend(run)
        return told

    def _joined(self, run: Iterable[TracedText]) -> ScoredText:
        texts: list[str] = []
        tokens: list[ScoredToken] = []
        for segment in run:
            texts.append(segment.text)
            tokens += self._take(segment.spans)
        return ScoredText("".join(texts), tuple(tokens))

    def _take(self, spans: Sequence[Span]) -> list[ScoredToken]:
        """The tokens that wrote something of these spans, and were not taken before."""
        tokens = []
        for start, end in spans:
            while self._places and self._places[0].start < end:
                place = self._places.popleft()
                if place.end > max(start, place.start):
                    tokens.append(place.token)
        return tokens

    # ---- where prediction and text meet ----

    def _add(self, written: bytes) -> bool:
        """Predicts these bytes. Whether they do not go on with a character that was begun: it is U+FFFD then, and not
        theirs."""
        whole = self._begun + written
        text, used = codecs.utf_8_decode(whole, "replace", False)  # not final: the last character may go on
        breaks = bool(self._begun) and text.startswith(REPLACEMENT) and not whole.startswith(REPLACEMENT.encode())
        self._ahead, self._begun = self._ahead + text, whole[used:]
        return breaks

    def _found(self, text: str) -> int | None:
        """Where in what is predicted this text begins."""
        ahead = self._ahead
        if ahead.startswith(text) or text.startswith(ahead):
            return 0
        if ahead.endswith(text):
            return len(ahead) - len(text)
        at = ahead.find(text)
        return at if at >= 0 else None

    def _pass_over(self, begin: int, length: int) -> None:
        """Moves the waiting tokens back by `length`: the text that was predicted at `begin` was not read."""
        for place in reversed(self._places):
            if place.end <= begin:
                return
            place.start = max(min(place.start, begin), place.start - length)
            place.end = max(begin, place.end - length)

    def _share(self, begin: int) -> None:
        """All tokens that wait wrote all text since then."""
        for place in reversed(self._places):
            if place.end <= begin:
                return
            place.start, place.end = min(place.start, begin), self._read
