"""Calls with the name outside and JSON arguments behind it, as DeepSeek, Kimi and Mistral write them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from antiphon_translator.parsing.cursor import Markers, Reader
from antiphon_translator.parsing.kinds.json_call import JsonCall
from antiphon_translator.parsing.reading import Malformed, Reading


@dataclass(frozen=True, slots=True)
class NamedCall:
    """`name_end` ends the name; `name_pattern` finds it, and an `id` if there is one, in what stands before that."""

    open: tuple[str, ...]
    name_end: tuple[str, ...]
    close: tuple[str, ...] = ()
    section_open: tuple[str, ...] = ()
    section_close: tuple[str, ...] = ()
    name_pattern: str = r"\s*(?P<name>.*?)\s*"
    id_open: tuple[str, ...] = ()
    """Between the name and `name_end`: what the id of the call stands behind."""
    may_be_json: bool = False
    """Instead of a name, an array or an object of calls may follow the opener."""

    def read(self, reading: Reading) -> Reader[None]:
        cursor = reading.cursor
        if self.may_be_json:
            yield from cursor.spaces()
            if (yield from cursor.peek()) in ("[", "{"):
                yield from JsonCall(close=self.close).read(reading)
                return
        name, model_id = yield from self._name(reading)
        yield from cursor.spaces()
        reading.begin_call(name, model_id)
        if (yield from cursor.peek()) == "{":
            yield from self._arguments(reading)
        elif (yield from cursor.one_of((*self.close, *self.section_close))):
            reading.out.arguments("{}")
            reading.out.end_call()
        else:
            raise Malformed

    def _name(self, reading: Reading) -> Reader[tuple[str, str | None]]:
        written: list[str] = []
        model_id: str | None = None
        end = yield from reading.cursor.until(Markers((*self.name_end, *self.id_open)), written.append)
        if end in self.id_open:
            call_id: list[str] = []
            end = yield from reading.cursor.until(Markers(self.name_end), call_id.append)
            model_id = "".join(call_id).strip()
        if end is None:
            raise Malformed
        if end.startswith("{"):
            reading.cursor.back(end)
        match = re.fullmatch(self.name_pattern, "".join(written), re.DOTALL)
        if match is None or not match["name"]:
            raise Malformed
        return match["name"], match.groupdict().get("id") or model_id

    def _arguments(self, reading: Reading) -> Reader[None]:
        cursor, out = reading.cursor, reading.out
        if not (yield from cursor.json_value(out.arguments)):
            raise Malformed
        out.end_call()
        yield from cursor.spaces()
        yield from cursor.one_of(self.close)
