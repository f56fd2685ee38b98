"""Calls as Gemma 4 and FunctionGemma write them: `call:NAME{key:<|"|>text<|"|>,other:[1,{a:true}]}`.

Keys have no quotes, and strings stand between markers. The arguments are converted to JSON while they stream.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from antiphon_core.limits import JSON_DEPTH_MAX
from antiphon_translator.parsing import values
from antiphon_translator.parsing.cursor import Emit, Malformed, Reader
from antiphon_translator.parsing.markers import Markers
from antiphon_translator.parsing.reading import Reading

_WORD_ENDS = (",", "}", "]")


@dataclass(frozen=True)
class GemmaCall:
    open: tuple[str, ...]
    close: tuple[str, ...]
    quote: str
    section_open: tuple[str, ...] = ()
    section_close: tuple[str, ...] = ()

    def read(self, reading: Reading) -> Reader[None]:
        cursor = reading.cursor
        yield from cursor.spaces()
        if not (yield from cursor.literal("call:")):
            raise Malformed
        yield from cursor.spaces()
        name = yield from cursor.word()
        yield from cursor.spaces()
        if not (yield from cursor.literal("{")):
            raise Malformed
        reading.begin_call(name)
        yield from self._object(reading, JSON_DEPTH_MAX)
        reading.out.end_call()

    def _object(self, reading: Reading, depth: int) -> Reader[None]:
        """Reads an object from behind its opening brace, and moves behind its closing one."""
        reading.out.arguments("{")
        separator = ""
        while (yield from self._has_more(reading, "}")):
            key: list[str] = []
            if (yield from reading.cursor.literal(self.quote)):
                yield from self._to(Markers((self.quote,)), key.append, reading)
                yield from self._to(self._key_end, reading.out.drop, reading)
            else:
                yield from self._to(self._key_end, key.append, reading)
            reading.out.arguments(f"{separator}{values.string(''.join(key).strip())}: ")
            separator = ", "
            yield from self._value(reading, depth)
        reading.out.arguments("}")

    def _list(self, reading: Reading, depth: int) -> Reader[None]:
        reading.out.arguments("[")
        separator = ""
        while (yield from self._has_more(reading, "]")):
            reading.out.arguments(separator)
            separator = ", "
            yield from self._value(reading, depth)
        reading.out.arguments("]")

    def _value(self, reading: Reading, depth: int) -> Reader[None]:
        """Reads a value that is nested at most `depth` levels deep. Malformed: it is deeper."""
        cursor, out = reading.cursor, reading.out
        if not depth:
            raise Malformed
        yield from cursor.spaces()
        if (yield from cursor.literal(self.quote)):
            out.arguments('"')
            yield from self._to(Markers((self.quote,)), lambda part: out.arguments(values.string_part(part)), reading)
            out.arguments('"')
        elif (yield from cursor.literal("{")):
            yield from self._object(reading, depth - 1)
        elif (yield from cursor.literal("[")):
            yield from self._list(reading, depth - 1)
        else:
            yield from self._word(reading)

    def _word(self, reading: Reading) -> Reader[None]:
        written: list[str] = []
        end = yield from reading.cursor.until(self._word_end, written.append)
        reading.cursor.back(end or "")
        if end not in _WORD_ENDS:
            raise Malformed
        reading.out.arguments(values.as_json("".join(written).strip(), values.ANYTHING))

    def _has_more(self, reading: Reading, end: str) -> Reader[bool]:
        """Whether another element comes. Moves behind the comma before the element, or behind the end. Malformed: the
        text has ended, or another bracket comes."""
        cursor = reading.cursor
        yield from cursor.spaces()
        while (yield from cursor.literal(",")):
            yield from cursor.spaces()
        if (yield from cursor.literal(end)):
            return False
        if (yield from cursor.peek()) in ("", "}", "]"):  # the wrong bracket would never be passed: an endless loop
            raise Malformed
        return True

    def _to(self, markers: Markers, emit: Emit, reading: Reading) -> Reader[None]:
        found = yield from reading.cursor.until(markers, emit)
        if found is None or found in self.open or found in self.close:
            reading.cursor.back(found or "")
            raise Malformed

    @cached_property
    def _key_end(self) -> Markers:
        return Markers((":", *self.open, *self.close))

    @cached_property
    def _word_end(self) -> Markers:
        return Markers((*_WORD_ENDS, *self.open, *self.close))
