"""One value between tags: where it ends, and what is taken off its ends."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from antiphon_translator.parsing.cursor import Emit, Malformed, Reader
from antiphon_translator.parsing.markers import Markers
from antiphon_translator.parsing.reading import Reading


@dataclass(frozen=True, slots=True)
class ValueEnds:
    """A value may spell every marker, so none of them ends it but by what comes next.

    `closers` end it before one of `followers`, or anywhere when there are none; `tags` of further parameters end it
    where they are; `ends` of the call do before one of `beginnings`, which end sections and begin other calls."""

    closers: tuple[str, ...]
    followers: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()
    beginnings: tuple[str, ...] = ()

    def read(self, reading: Reading, emit: Emit) -> Reader[None]:
        """Passes a value on, and goes behind its closer. Malformed: it has no end."""
        cursor = reading.cursor
        markers = _markers((*self.closers, *self.tags, *self.ends))
        while True:
            found = yield from cursor.until(markers, emit)
            if found is None:
                raise Malformed
            if found in self.closers:
                if not self.followers or (yield from cursor.comes_next(self.followers)):
                    return
            elif found in self.tags or (yield from self._ends_call(reading)):
                cursor.back(found.lstrip("\n"))
                return
            emit(found)

    def _ends_call(self, reading: Reading) -> Reader[bool]:
        """Whether what was read last is the end of a call, by what comes next."""
        is_end = yield from reading.cursor.comes_next(self.beginnings)
        return is_end and not reading.cursor.is_cut_off


def next_tags(keys: Iterable[str], openers: Iterable[str], closers: Iterable[str]) -> tuple[str, ...]:
    """The tags of these keys, each in a line of its own: where a value was not closed, they end it."""
    openers, ends = tuple(openers), tuple(dict.fromkeys(each[0] for each in closers))
    return tuple(
        f"\n{opener}{quote}{key}{quote}{end}"
        for key in sorted(keys)
        for opener in openers
        for end in ends
        for quote in ("", '"', "'")
        if not (quote and opener.endswith(quote))
    )


@lru_cache(maxsize=256)
def _markers(literals: tuple[str, ...]) -> Markers:
    """Nearly all values of a model end alike."""
    return Markers(literals)


_NEWLINES = ("\r", "\n")


class WithoutNewlines:
    """Passes a value on without the one newline on either side of it, of either kind."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._held = ""
        self._begun = False

    def __call__(self, text: str) -> None:
        if self._begun and not self._held and text[-1:] not in _NEWLINES:
            self._emit(text)
            return
        text = self._held + text
        if not self._begun:
            if text == "\r":
                self._held = text
                return
            text = text.removeprefix("\r").removeprefix("\n") if text[:2] == "\r\n" else text.removeprefix("\n")
            self._begun = True
        end = len(text) - (2 if text.endswith("\r\n") else 1 if text[-1:] in _NEWLINES else 0)
        self._held = text[end:]
        if end:
            self._emit(text[:end])
