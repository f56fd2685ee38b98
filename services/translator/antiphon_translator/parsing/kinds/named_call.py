"""Calls of a name and JSON arguments behind it, as DeepSeek, Kimi and Mistral write them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from antiphon_translator.parsing.alphabet import plain
from antiphon_translator.parsing.cursor import Malformed, Reader
from antiphon_translator.parsing.kinds import json_arguments
from antiphon_translator.parsing.reading import Reading


@dataclass(frozen=True, slots=True)
class NamedCall:
    """The syntax OPEN [WORD NAME_OPEN] NAME [ID_OPEN ID] NAME_END ARGUMENTS CLOSE.

    Without `name_open` the name stands right behind `open`. The word before `name_open` is a kind or an id, and is
    ignored. Models leave `name_end` out at times. `name_pattern` finds the `name`, and maybe an `id`, in the word NAME.
    """

    open: tuple[str, ...]
    name_end: tuple[str, ...]
    close: tuple[str, ...] = ()
    section_open: tuple[str, ...] = ()
    section_close: tuple[str, ...] = ()
    name_open: tuple[str, ...] = ()
    name_pattern: str = plain(r"(?P<name>.*)")
    id_open: tuple[str, ...] = ()
    """Markers between the name and the id of the call."""

    def read(self, reading: Reading) -> Reader[None]:
        cursor = reading.cursor
        name, model_id, is_marked = yield from self._name(reading)
        yield from cursor.spaces()
        is_object = (yield from cursor.peek()) == "{"
        is_empty = is_marked and not is_object
        is_empty = is_empty and (yield from cursor.comes_next((*self.close, *self.section_close)))
        if not (is_object or is_empty or (is_marked and reading.is_offered(name))):
            raise Malformed
        reading.begin_call(name, model_id)
        if not is_empty:
            yield from json_arguments.read(reading)
        elif cursor.is_at_end:
            raise Malformed
        else:
            reading.out.arguments("{}")
        reading.out.end_call()

    def _name(self, reading: Reading) -> Reader[tuple[str, str | None, bool]]:
        """Returns the name, the id that the model gave the call, and whether `name_end` follows."""
        cursor = reading.cursor
        yield from cursor.spaces()
        if self.name_open:
            yield from cursor.word()
            if (yield from cursor.one_of(self.name_open)) is None:
                raise Malformed
            yield from cursor.spaces()
        match = re.fullmatch(self.name_pattern, (yield from cursor.word()))
        if match is None or not reading.can_call(match["name"]):
            raise Malformed
        model_id = match.groupdict().get("id")
        yield from cursor.spaces()
        if self.id_open and (yield from cursor.one_of(self.id_open)):
            model_id = yield from cursor.word()
            yield from cursor.spaces()
        is_marked = (yield from cursor.one_of(self.name_end)) is not None
        reading.note_name(match["name"], is_certain=is_marked)
        return match["name"], model_id, is_marked
