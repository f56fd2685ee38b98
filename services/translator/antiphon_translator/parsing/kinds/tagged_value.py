"""Finds the end of a value between tags, and trims the newlines around it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from antiphon_core.jsons import Object
from antiphon_translator.parsing import values
from antiphon_translator.parsing.cursor import Emit, Malformed, Reader
from antiphon_translator.parsing.kinds import json_arguments
from antiphon_translator.parsing.markers import Markers
from antiphon_translator.parsing.reading import Reading

_WRAPPED = re.compile(r'\s*\{\s*"(?P<key>\w+)"\s*:(?P<value>.*)\}\s*', re.DOTALL)


@dataclass(frozen=True, slots=True)
class ValueEnds:
    """The literals that may end a value. A value may itself contain one of them, so the text behind it decides.

    One of `closers` ends the value if one of `followers` comes next, or always if there are none. One of `tags`, which
    open further parameters, always ends the value. One of `ends`, which close the call, ends the value if one of
    `beginnings` comes next, which end the section or begin another call."""

    closers: tuple[str, ...]
    followers: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()
    beginnings: tuple[str, ...] = ()

    def read(self, reading: Reading, emit: Emit) -> Reader[None]:
        """Emits a value, and moves behind its closer, or before another end. Malformed: the value has no end."""
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
        """Whether the literal that was read last ends the call, by the text behind it."""
        is_end = yield from reading.cursor.comes_next(self.beginnings)
        return is_end and not reading.cursor.is_cut_off


def all_arguments(schema: Object, written: str) -> str | None:
    """The object of all arguments that a text holds, maybe encoded twice. None: it holds none."""
    arguments = json_arguments.unwrapped(written.strip())
    return arguments if arguments is not None and values.is_wrapper(schema, arguments) else None


def body_arguments(schema: Object, written: str) -> str | None:
    """The object of all arguments within an object whose only member is a wrapper, such as `{"arguments": {...}}`."""
    match = _WRAPPED.fullmatch(written)
    if match is None or not values.may_be_wrapper(schema, match["key"]):
        return None
    return all_arguments(schema, match["value"])


def next_tags(
    keys: Iterable[str], openers: Iterable[str], closers: Iterable[str], *, in_line: bool = False
) -> tuple[str, ...]:
    """The opening tags of these keys, which end a value whose closer is missing: each at the beginning of a line, and
    with `in_line` anywhere, for tags that a value hardly has."""
    openers, ends = tuple(openers), tuple(dict.fromkeys(each[0] for each in closers))
    return tuple(
        f"{line}{opener}{quote}{key}{quote}{end}"
        for line in (("\n", "") if in_line else ("\n",))
        for key in sorted(keys)
        for opener in openers
        for end in ends
        for quote in ("", '"', "'")
        if not (quote and opener.endswith(quote))
    )


@lru_cache(maxsize=256)
def _markers(literals: tuple[str, ...]) -> Markers:
    """Markers are cached, because nearly all values of a model end in the same way."""
    return Markers(literals)


_NEWLINES = ("\r", "\n")


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
