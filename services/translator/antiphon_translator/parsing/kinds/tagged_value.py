"""One value between tags: where it ends, and what is taken off its ends."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from antiphon_translator.parsing.cursor import Emit, Markers, Reader
from antiphon_translator.parsing.reading import Malformed, Reading


@dataclass(frozen=True, slots=True)
class ValueEnds:
    """`closers` end a value where one of `followers` comes next, or anywhere when there are none: a value may spell
    them. `others` end it as well, but belong to what follows."""

    closers: tuple[str, ...]
    followers: tuple[str, ...] = ()
    others: tuple[str, ...] = ()

    def read(self, reading: Reading, emit: Emit) -> Reader[None]:
        """Passes a value on, and goes behind its closer. Malformed: it has no end."""
        cursor = reading.cursor
        markers = _markers((*self.closers, *self.others))
        while True:
            end = yield from cursor.until(markers, emit)
            if end is None:
                raise Malformed
            if end not in self.closers:
                cursor.back(end.lstrip("\n"))
                return
            if not self.followers or (yield from cursor.comes_next(self.followers)):
                return
            emit(end)


def next_tags(keys: Iterable[str], openers: Iterable[str], closers: Iterable[str]) -> tuple[str, ...]:
    """The tags of these keys, each in a line of its own: where a value was not closed, they end it."""
    openers, closers = tuple(openers), tuple(closers)
    return tuple(f"\n{opener}{key}{closer}" for key in sorted(keys) for opener in openers for closer in closers)


@lru_cache(maxsize=256)
def _markers(literals: tuple[str, ...]) -> Markers:
    """Nearly all values of a model end alike."""
    return Markers(literals)


class WithoutNewlines:
    """Passes a value on without the one newline on either side of it."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._held = ""
        self._begun = False

    def __call__(self, text: str) -> None:
        if not self._begun:
            text = text.removeprefix("\n")
            self._begun = True
        text = self._held + text
        self._held = "\n" if text.endswith("\n") else ""
        text = text[: len(text) - len(self._held)]
        if text:
            self._emit(text)
