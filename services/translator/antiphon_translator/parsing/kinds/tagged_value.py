"""Finds the end of a value between tags, and trims the newlines around it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from antiphon_core.jsons import Object
from antiphon_translator.parsing import values
from antiphon_translator.parsing.cursor import Emit, Malformed, Reader
from antiphon_translator.parsing.kinds import json_arguments
from antiphon_translator.parsing.markers import Markers
from antiphon_translator.parsing.reading import Reading

_NEWLINES = ("\r", "\n")
_QUOTES = ("", '"', "'")
_WRAPPED = re.compile(r'\s*\{\s*"(?P<key>\w+)"\s*:(?P<value>.*)\}\s*', re.DOTALL)


class NextTags:
    """The opening tags of the parameters that a call has not given yet. They end a value whose closer is missing.

    `openers` are the beginnings of such tags, each with the line break before it. A name in quotes or without them
    follows, and one of `ends`. The caller takes the names that were given out of `names`."""

    def __init__(self, openers: tuple[str, ...], ends: tuple[str, ...], names: set[str]) -> None:
        self.openers = openers if names else ()
        self.names = names
        self._ends = ends
        self._chars = max(map(len, names), default=0) + len("''>")

    def complete(self, reading: Reading, opener: str) -> Reader[bool]:
        """Whether an opener that was read last begins the tag of one of the parameters."""
        ahead = yield from reading.cursor.peek(self._chars)
        quotes = (each for each in _QUOTES if ahead.startswith(each) and not (each and opener.endswith(each)))
        return any(self._begins(ahead[len(quote) :], quote + end) for quote in quotes for end in self._ends)

    def _begins(self, text: str, end: str) -> bool:
        name, found, _ = text.partition(end)
        return bool(found) and name in self.names


NO_TAGS = NextTags((), (), set())


@dataclass(frozen=True, slots=True)
class ValueEnds:
    """The literals that may end a value. A value may itself contain one of them, so the text behind it decides.

    One of `closers` ends the value if one of `followers` comes next, or always if there are none. One of `tags`, which
    open further parameters, always ends the value. One of `ends`, which close the call, ends the value if one of
    `beginnings` comes next, which end the section or begin another call."""

    closers: tuple[str, ...]
    followers: tuple[str, ...] = ()
    tags: NextTags = NO_TAGS
    ends: tuple[str, ...] = ()
    beginnings: tuple[str, ...] = ()

    def read(self, reading: Reading, emit: Emit) -> Reader[None]:
        """Emits a value, and moves behind its closer, or before another end. Malformed: the value has no end."""
        cursor = reading.cursor
        markers = _markers((*self.closers, *self.tags.openers, *self.ends))
        while True:
            found = yield from cursor.until(markers, emit)
            if found is None:
                raise Malformed
            if found in self.closers:
                if not self.followers or (yield from cursor.comes_next(self.followers)):
                    return
            elif found in self.tags.openers:
                if (yield from self.tags.complete(reading, found)):
                    cursor.back(found.lstrip("\n"))
                    return
                cursor.back(found[1:])  # another end may begin within it
                found = found[0]
            elif (yield from self._ends_call(reading)):
                cursor.back(found.lstrip("\n"))
                return
            emit(found)

    def _ends_call(self, reading: Reading) -> Reader[bool]:
        """Whether the literal that was read last ends the call, by the text behind it."""
        is_end = yield from reading.cursor.comes_next(self.beginnings)
        return is_end and not reading.cursor.is_cut_off


def all_arguments(schema: Object, written: str) -> str | None:
    """The object of all arguments that a text holds, maybe encoded twice. None: it holds none."""
    arguments = json_arguments.unwrap(written.strip())
    return arguments if arguments is not None and values.is_wrapper(schema, arguments) else None


def body_arguments(schema: Object, written: str) -> str | None:
    """The object of all arguments within an object whose only member is a wrapper, such as `{"arguments": {...}}`."""
    match = _WRAPPED.fullmatch(written)
    if match is None or not values.may_be_wrapper(schema, match["key"]):
        return None
    return all_arguments(schema, match["value"])


@lru_cache(maxsize=256)
def _markers(literals: tuple[str, ...]) -> Markers:
    """Markers are cached, because nearly all values of a model end in the same way."""
    return Markers(literals)


class WithoutNewlines:
    """Emits a value without one newline (LF or CRLF) at its beginning and one at its end."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._held = ""
        self._has_begun = False

    def __call__(self, text: str) -> None:
        if self._has_begun and not self._held and text[-1:] not in _NEWLINES:
            self._emit(text)
            return
        text = self._held + text
        if not self._has_begun:
            if text == "\r":
                self._held = text
                return
            text = text.removeprefix("\r").removeprefix("\n") if text[:2] == "\r\n" else text.removeprefix("\n")
            self._has_begun = True
        end = len(text) - (2 if text.endswith("\r\n") else 1 if text[-1:] in _NEWLINES else 0)
        self._held = text[end:]
        if end:
            self._emit(text[:end])
