"""Values as Gemma 4 and FunctionGemma write them, converted to JSON while they stream.

    <|"|>text<|"|>      a string between markers: the notation that the models were trained on
    "text", 'text'      a string as in JSON or Python, with escapes
    1, true, None       numbers, and the words of JSON and Python; other words are text
    [a,b], {key:a}      keys have no quotes, or any of the quotes above; `=` may stand in place of `:`

The quotes of JSON and Python, and `=`, are frequent mistakes (vLLM issues 51284 and 51307). A value that is none of
these is emitted as it is written, and raises Malformed, so that its call becomes incomplete: a call that is completed
with a guess would be run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

from antiphon_core.jsons import Object
from antiphon_translator.parsing import values
from antiphon_translator.parsing.cursor import Malformed, Reader
from antiphon_translator.parsing.markers import Markers
from antiphon_translator.parsing.reading import Reading

_QUOTES = ('"', "'")
_ASSIGNS = (":", "=")
_CLOSERS = ("}", "]", ")")
_STRUCTURE = (",", *_CLOSERS, "{", "[", "(", *_QUOTES)
_KEY = re.compile(r"[^\s<>]+(?: [^\s<>]+)*")
_WORD = re.compile(r".+")  # in one line
# A comma is missing before the next key.
_NEXT_KEY = re.compile(r"\s[^\W\d]\w*\s*[:=]")


@dataclass(frozen=True)
class GemmaValue:
    """The notation of values. `quote` is the marker around a string; `ends` are the markers behind a call, which no
    value contains."""

    quote: str
    ends: tuple[str, ...]

    def members(self, reading: Reading, closer: str, schema: Object, depth: int) -> Reader[None]:
        """Reads the members of an object, and moves behind its closing bracket."""
        reading.out.arguments("{")
        is_first = True
        while (yield from self._has_more(reading, closer, is_first=is_first)):
            is_first = False
            key = yield from self._key(reading)
            reading.out.arguments(f"{values.string(key)}: ")
            yield from self._value(reading, values.member(schema, key), depth)
        reading.out.arguments("}")

    def _elements(self, reading: Reading, schema: Object, depth: int) -> Reader[None]:
        reading.out.arguments("[")
        is_first = True
        while (yield from self._has_more(reading, "]", is_first=is_first)):
            is_first = False
            yield from self._value(reading, values.element(schema), depth)
        reading.out.arguments("]")

    def _has_more(self, reading: Reading, closer: str, *, is_first: bool) -> Reader[bool]:
        """Whether another element comes. Moves to the element, or behind the closing bracket. Malformed: no comma
        separates the element from the one before it."""
        cursor = reading.cursor
        has_comma = False
        yield from cursor.spaces()
        while (yield from cursor.literal(",")):
            has_comma = True
            yield from cursor.spaces()
        if (yield from cursor.literal(closer)):
            return False
        if not is_first:
            if not has_comma:
                raise Malformed
            reading.out.arguments(", ")
        return True

    def _key(self, reading: Reading) -> Reader[str]:
        """Reads a key, and moves behind the `:` or `=` after it."""
        cursor = reading.cursor
        written: list[str] = []
        with _shown_if_malformed(reading, written):
            if (yield from cursor.literal(self.quote)):
                key = yield from self._read_marked(reading, written)
            elif (yield from cursor.peek()) in _QUOTES:
                key = yield from self._read_quoted(reading, written)
            else:
                key = yield from self._bare_key(reading, written)
            yield from cursor.spaces()
            if (yield from cursor.one_of(_ASSIGNS)) is None:
                raise Malformed
        return key

    def _bare_key(self, reading: Reading, written: list[str]) -> Reader[str]:
        found = yield from reading.cursor.until(self._key_end, written.append)
        reading.cursor.back(found or "")
        key = "".join(written).strip()
        if _KEY.fullmatch(key) is None:
            raise Malformed
        return key

    def _value(self, reading: Reading, schema: Object, depth: int) -> Reader[None]:
        """Reads a value that is nested at most `depth` levels deep. Malformed: it is deeper."""
        cursor = reading.cursor
        if not depth:
            raise Malformed
        yield from cursor.spaces()
        if (yield from cursor.literal(self.quote)):
            yield from self._string(reading)
        elif (yield from cursor.literal("{")):
            yield from self.members(reading, "}", schema, depth - 1)
        elif (yield from cursor.literal("[")):
            yield from self._elements(reading, schema, depth - 1)
        elif (yield from cursor.peek()) in _QUOTES:
            yield from self._plain_string(reading)
        else:
            yield from self._word(reading, values.types_of(schema))

    def _string(self, reading: Reading) -> Reader[None]:
        """Reads a string between markers piece by piece."""
        out = reading.out
        out.arguments('"')
        found = yield from reading.cursor.until(self._quote_end, lambda part: out.arguments(values.string_part(part)))
        if found is None:
            raise Malformed
        out.arguments('"')

    def _plain_string(self, reading: Reading) -> Reader[None]:
        """Reads a string in plain quotes. Malformed: neither a comma nor a closing bracket follows, so that the quote
        may belong to the text."""
        written: list[str] = []
        with _shown_if_malformed(reading, written):
            text = yield from self._read_quoted(reading, written)
            if not (yield from reading.cursor.comes_next((",", *_CLOSERS, *self.ends))):
                raise Malformed
        reading.out.arguments(values.string(text))

    def _word(self, reading: Reading, types: frozenset[str]) -> Reader[None]:
        written: list[str] = []
        with _shown_if_malformed(reading, written):
            found = yield from reading.cursor.until(self._word_end, written.append)
            reading.cursor.back(found or "")
            word = "".join(written).strip()
            if found not in (",", *_CLOSERS) or _WORD.fullmatch(word) is None or _NEXT_KEY.search(word):
                raise Malformed
            converted = values.word_as_json(word, types)
            if converted is None:
                raise Malformed
        reading.out.arguments(converted)

    def _read_marked(self, reading: Reading, written: list[str]) -> Reader[str]:
        """Reads on to the closing marker of a string, and returns the string. `written` gets it with its markers."""
        written.append(self.quote)
        if (yield from reading.cursor.until(self._quote_end, written.append)) is None:
            raise Malformed
        written.append(self.quote)
        return "".join(written[1:-1])

    def _read_quoted(self, reading: Reading, written: list[str]) -> Reader[str]:
        """Reads a string in plain quotes, and returns its text. `written` gets the string as it is written. Malformed:
        it has no end, or it is a string of neither JSON nor Python."""
        cursor = reading.cursor
        quote = yield from cursor.take(1)
        written.append(quote)
        while (found := (yield from cursor.until(self._plain_end[quote], written.append))) != quote:
            if found != "\\":
                cursor.back(found or "")
                raise Malformed
            written.extend((found, (yield from cursor.take(1))))
        written.append(quote)
        text = values.text_of_literal("".join(written))
        if text is None:
            raise Malformed
        return text

    @cached_property
    def _key_end(self) -> Markers:
        return Markers((*_ASSIGNS, *_STRUCTURE, self.quote, *self.ends))

    @cached_property
    def _word_end(self) -> Markers:
        return Markers((*_STRUCTURE, self.quote, *self.ends))

    @cached_property
    def _quote_end(self) -> Markers:
        return Markers((self.quote,))

    @cached_property
    def _plain_end(self) -> dict[str, Markers]:
        return {quote: Markers((quote, "\\", *self.ends)) for quote in _QUOTES}


@contextmanager
def _shown_if_malformed(reading: Reading, written: list[str]) -> Iterator[None]:
    """Emits a text that was read but not understood as a part of the arguments, so that it is not lost."""
    try:
        yield
    except Malformed:
        reading.out.arguments("".join(written))
        raise
