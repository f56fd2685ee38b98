"""Text segments with their positions in the model's output, by which logprobs/ finds the tokens that wrote them.

Positions are counted in characters of the parser's input. The output may leave out white space and markers, so a text
can have several spans. This module does not decide which parts are text: it only records what cursor and output do.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from antiphon_core.values import value
from antiphon_translator.parsing.cursor import Cursor
from antiphon_translator.parsing.segments import Output, Segment, Text, TextRun

Watch = Callable[[str], None]
Span = tuple[int, int]


@value
class TracedText(Text):
    """A text with the spans of the input that its characters come from, in order."""

    spans: tuple[Span, ...]


def trace(watch: Watch, stops: Sequence[str] = ()) -> tuple[Cursor, Output]:
    """A cursor that passes all text to `watch` before reading it, and an output of traced texts."""
    cursor = TracedCursor(watch)
    return cursor, TracedOutput(lambda: cursor.position, stops)


class TracedCursor(Cursor):
    """A cursor that passes all its input to `watch`."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self._watch = watch

    def feed(self, text: str) -> None:
        self._watch(text)
        super().feed(text)


class TracedOutput(Output):
    """An output whose texts have spans. `position` is the end of a text in the input while the text is added."""

    def __init__(self, position: Callable[[], int], stops: Sequence[str] = ()) -> None:
        super().__init__(stops)
        self._text = _TracedRun(position, stops)


class _TracedRun(TextRun):
    def __init__(self, position: Callable[[], int], stops: Sequence[str]) -> None:
        super().__init__(self._trace, keeps_leading=True, stops=stops)
        self._position = position
        self._pending: deque[Span] = deque()

    def add(self, text: str, to: list[Segment]) -> None:
        end = self._position()
        self._pending.append((end - len(text), end))
        super().add(text, to)

    def _trace(self, text: str) -> TracedText:
        """A text with its spans. Of the pending spans, those of dropped white space come before it, and those of text
        that is held back behind it."""
        held = sum(map(len, self._held)) + (self._stops.withheld if self._stops is not None else 0)
        self._take(sum(end - start for start, end in self._pending) - held - len(text))
        return TracedText(text, tuple(self._take(len(text))))

    def _take(self, length: int) -> list[Span]:
        """Removes the next `length` characters from the pending spans, and returns their spans."""
        spans = []
        while length:
            start, end = self._pending.popleft()
            middle = min(end, start + length)
            spans.append((start, middle))
            length -= middle - start
            if middle < end:
                self._pending.appendleft((middle, end))
        return spans
