"""Calls in Python's syntax, as Llama 4, LFM2 and Olmo 3 write them: `[f(a=1), g()]`, or one call in each line.

The source of all calls is collected to its end, and then split and converted (python_source.py). A call whose arguments
are not all named literals is incomplete, with its arguments as they are written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from antiphon_translator.parsing import values
from antiphon_translator.parsing.cursor import Emit, Malformed, Reader
from antiphon_translator.parsing.kinds.python_source import PythonSource, calls_of
from antiphon_translator.parsing.markers import Markers
from antiphon_translator.parsing.reading import Reading


@dataclass(frozen=True)
class PythonCall:
    open: tuple[str, ...] = ()
    close: tuple[str, ...] = ()
    section_open: tuple[str, ...] = ()
    section_close: tuple[str, ...] = ()
    is_list: bool = True
    """Whether the calls are a list; otherwise each stands in a line of its own."""

    def read(self, reading: Reading) -> Reader[None]:
        """Emits all calls at the end of the last one. Calls that are too long to be given back are never read as text:
        if they cannot be parsed, they are an incomplete call."""
        cursor = reading.cursor
        yield from cursor.spaces()
        opener = "[" if self.is_list and (yield from cursor.literal("[")) else ""
        yield from cursor.spaces()
        name = yield from cursor.word()
        yield from cursor.spaces()
        if bool(opener) is not self.is_list or not reading.can_call(name) or (yield from cursor.peek()) != "(":
            raise Malformed
        reading.note_name(name, is_certain=False)
        written = [name]
        cursor.loosen_mark()
        is_whole = yield from self._rest(reading, written.append)
        source = "".join(written)
        calls = calls_of(source.removesuffix("]") if is_whole and self.is_list else source)
        if not self._is_certain(reading, calls, is_whole=is_whole):
            raise Malformed
        for call in calls:
            _write(reading, call)

    def _is_certain(self, reading: Reading, calls: Sequence[PythonSource], *, is_whole: bool) -> bool:
        """Whether these are calls: all of them can be read to their end, or the first one stands behind a marker and is
        of a tool that was offered."""
        if not calls or not all(reading.can_call(call.name) for call in calls):
            return False
        if is_whole and all(call.json is not None for call in calls):
            return True
        return bool(self.open) and not reading.takes_offered_only and reading.is_offered(calls[0].name)

    def _rest(self, reading: Reading, keep: Emit) -> Reader[bool]:
        """Reads on from the bracket of the first call. Returns whether the end of the calls came."""
        if not self.is_list:
            found = yield from reading.cursor.until(self._close, keep)
            reading.cursor.back(found or "")
            return found is not None
        return (yield from reading.cursor.python_list(keep, depth=1))

    @cached_property
    def _close(self) -> Markers:
        return Markers(self.close)


def _write(reading: Reading, call: PythonSource) -> None:
    reading.begin_call(call.name)
    if call.json is None:
        reading.out.arguments(call.arguments)
        reading.out.break_call()
    else:
        reading.out.arguments(values.with_integers(call.json, reading.schemas.get(call.name, {})))
        reading.out.end_call()
