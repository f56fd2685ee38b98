"""Texts that know where in the model's output they were read, for whoever has to find the tokens that wrote them.

A place is counted in characters of the parser's input. What comes out may leave out white space and markers, so a text
can have several spans. Nothing here decides what text is: cursor and output do as always, and are watched.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from antiphon_core.values import value
from antiphon_translator.parsing.cursor import Cursor
from antiphon_translator.parsing.segments import Output, Segment, Text, TextRun

Watch = Callable[[str], None]
Span = tuple[int, int]


@value
class TracedText(Text):
    """A text whose characters stood at these spans, in order."""

    spans: tuple[Span, ...]


def traced(watch: Watch) -> tuple[Cursor, Output]:
    """A cursor that tells `watch` all text before it is read, and an output of traced texts."""
    cursor = TracedCursor(watch)
    return cursor, TracedOutput(lambda: cursor.position)


class TracedCursor(Cursor):
    """Tells `watch` all text that it is fed."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self._watch = watch

    def feed(self, text: str) -> None:
        self._watch(text)
        super().feed(text)


class TracedOutput(Output):
    """Texts that are given to it end where `position` says."""

    def __init__(self, position: Callable[[], int]) -> None:
        super().__init__()
        self._text = _TracedRun(position)


class _TracedRun(TextRun):
    def __init__(self, position: Callable[[], int]) -> None:
        super().__init__(Text, keeps_leading=True)
        self._position = position
        self._untold: deque[Span] = deque()

    def add(self, text: str, to: list[Segment]) -> None:
        end = self._position()
        self._untold.append((end - len(text), end))
        told = len(to)
        super().add(text, to)
        self._trace(to, told)

    def finish(self, to: list[Segment]) -> None:
        told = len(to)
        super().finish(to)
        self._trace(to, told)

    def _trace(self, to: list[Segment], told: int) -> None:
        """Behind what was told is what is still held, before it what was dropped."""
        for number, segment in enumerate(to[told:], told):
            if isinstance(segment, Text):
                length, held = len(segment.text), sum(map(len, self._held))
                self._take(sum(end - start for start, end in self._untold) - held - length)
                to[number] = TracedText(segment.text, tuple(self._take(length)))

    def _take(self, length: int) -> list[Span]:
        """The next so many characters of what was not told yet."""
        spans = []
        while length:
            start, end = self._untold.popleft()
            middle = min(end, start + length)
            spans.append((start, middle))
            length -= middle - start
            if middle < end:
                self._untold.appendleft((middle, end))
        return spans
