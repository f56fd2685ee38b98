"""Texts with their places in the model's output, from which logprobs/ finds the tokens that wrote them.

A place is counted in characters of the parser's input. Output may leave out white space and markers, so a text can
have several spans. This module does not decide which parts are text: it only watches cursor and output.
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
    """A cursor that passes all text to `watch` before reading it, and an output of traced texts."""
    cursor = TracedCursor(watch)
    return cursor, TracedOutput(lambda: cursor.position)


class TracedCursor(Cursor):
    """A cursor that passes all its input to `watch`."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self._watch = watch

    def feed(self, text: str) -> None:
        self._watch(text)
        super().feed(text)


class TracedOutput(Output):
    """An output whose texts end at `position` when they are added."""

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
        """Gives new text segments their spans. Held text stands behind them, dropped text before them."""
        for number, segment in enumerate(to[told:], told):
            if isinstance(segment, Text):
                length, held = len(segment.text), sum(map(len, self._held))
                self._take(sum(end - start for start, end in self._untold) - held - length)
                to[number] = TracedText(segment.text, tuple(self._take(length)))

    def _take(self, length: int) -> list[Span]:
        """The spans of the next `length` characters that were not passed on yet."""
        spans = []
        while length:
            start, end = self._untold.popleft()
            middle = min(end, start + length)
            spans.append((start, middle))
            length -= middle - start
            if middle < end:
                self._untold.appendleft((middle, end))
        return spans
