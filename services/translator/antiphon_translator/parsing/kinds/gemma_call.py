"""Calls as Gemma 4 and FunctionGemma write them: `call:NAME{key:<|"|>text<|"|>,other:[1,{a:true}]}`.

Models also write `:NAME{...}` and `call:NAME(...)`, and leave markers out between calls (vLLM issue 54256). The opening
marker may be missing at the beginning of an answer and behind another call, where only an offered tool is called.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from antiphon_core.limits import JSON_DEPTH_MAX
from antiphon_translator.parsing.cursor import Malformed, Reader
from antiphon_translator.parsing.kinds.gemma_value import GemmaValue
from antiphon_translator.parsing.markers import Markers
from antiphon_translator.parsing.reading import Reading

_PREFIX = "call"
_BRACKETS = {"{": "}", "(": ")"}


@dataclass(frozen=True)
class GemmaCall:
    """Calls in Gemma's notation. The `bare` syntax of a family is one, too: it reads calls whose opening marker is
    missing."""

    open: tuple[str, ...]
    close: tuple[str, ...]
    quote: str
    section_open: tuple[str, ...] = ()
    section_close: tuple[str, ...] = ()

    def read(self, reading: Reading) -> Reader[None]:
        yield from self._call(reading)
        while (yield from self._is_next_call(reading)):
            yield from self._call(reading)

    def _call(self, reading: Reading) -> Reader[None]:
        name = yield from self._name(reading)
        bracket = yield from reading.cursor.one_of(_BRACKETS)
        if bracket is None:
            yield from self._require_end(reading, name)
        reading.begin_call(name)
        if bracket is None:
            reading.out.arguments("{}")
        else:
            yield from self._arguments(reading, name, _BRACKETS[bracket])
        reading.out.end_call()

    def _name(self, reading: Reading) -> Reader[str]:
        cursor = reading.cursor
        yield from cursor.spaces()
        yield from cursor.literal(_PREFIX)
        if not (yield from cursor.literal(":")):
            raise Malformed
        yield from cursor.spaces()
        name = yield from cursor.word()
        yield from cursor.spaces()
        reading.note_name(name, is_certain=False)
        return name

    def _require_end(self, reading: Reading, name: str) -> Reader[None]:
        """Raises Malformed unless the closer follows a name without arguments. Any word may stand between two markers,
        so the tool must be one that was offered."""
        is_end = yield from reading.cursor.comes_next(self.close)
        if not is_end or reading.cursor.is_at_end or not reading.is_offered(name):
            raise Malformed

    def _arguments(self, reading: Reading, name: str, closer: str) -> Reader[None]:
        """Reads the arguments behind their opening bracket. If they cannot be read, the rest of the call is emitted as
        it is written, up to the next marker of a call."""
        cursor, schema = reading.cursor, reading.schemas.get(name, {})
        try:
            yield from cursor.spaces()
            is_wrapped = yield from cursor.literal("{")
            yield from self._value.members(reading, "}" if is_wrapped else closer, schema, JSON_DEPTH_MAX)
            yield from cursor.spaces()
            if is_wrapped and not (yield from cursor.literal(closer)):
                raise Malformed
        except Malformed:
            cursor.back((yield from cursor.until(self._ends, reading.out.arguments)) or "")
            raise

    def _is_next_call(self, reading: Reading) -> Reader[bool]:
        """Whether a call without an opening marker follows, and is of a tool that was offered. Moves to the call."""
        cursor = reading.cursor
        cursor.mark()
        try:
            yield from cursor.spaces()
            while (yield from cursor.one_of(self.close)) is not None:
                yield from cursor.spaces()
            start = cursor.position
            is_call = (yield from cursor.literal(_PREFIX)) and reading.is_offered((yield from self._name(reading)))
            is_call = is_call and (yield from cursor.peek()) in _BRACKETS
            cursor.rewind()
            cursor.unmark()
            if is_call:
                yield from cursor.take(start - cursor.position)
        except Malformed:
            cursor.rewind()
            cursor.unmark()
            return False
        return is_call

    @cached_property
    def _value(self) -> GemmaValue:
        return GemmaValue(self.quote, self._end_markers)

    @cached_property
    def _ends(self) -> Markers:
        return Markers(self._end_markers)

    @property
    def _end_markers(self) -> tuple[str, ...]:
        return (*self.open, *self.close, *self.section_open, *self.section_close)
