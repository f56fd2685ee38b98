"""Calls without any marker, at the beginning of what a model says: Llama 3 writes JSON there, Llama 4 Python.

What looks like a call and is none is text, all of it, as it was written.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from antiphon_translator.parsing.cursor import Reader
from antiphon_translator.parsing.kinds.python_call import PythonCall
from antiphon_translator.parsing.reading import Malformed, Reading


@dataclass(frozen=True, slots=True)
class BareJson:
    """Objects like `{"name": ..., "parameters": {...}}`, with `;` or `,` between, or an array of them."""

    argument_keys: tuple[str, ...] = ("parameters", "arguments")
    separators: tuple[str, ...] = (";", ",")

    def read(self, reading: Reading) -> Reader[None]:
        cursor = reading.cursor
        yield from cursor.spaces()
        if (yield from cursor.peek()) not in ("{", "["):
            return
        cursor.mark()
        calls: list[tuple[str, str]] = []
        while True:
            written: list[str] = []
            whole = yield from cursor.json_value(written.append)
            found = self._calls_of("".join(written)) if whole else None
            if not found:
                reading.out.text(cursor.unmark())
                return
            calls.extend(found)
            yield from cursor.spaces()
            if (yield from cursor.one_of(self.separators)) is None:
                break
        cursor.unmark()
        for name, arguments in calls:
            reading.out.begin_call(name)
            reading.out.arguments(arguments)
            reading.out.end_call()

    def _calls_of(self, text: str) -> list[tuple[str, str]]:
        """The calls that a JSON value consists of; none when it is something else."""
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return []
        found = [self._call(each) for each in (value if isinstance(value, list) else [value])]
        calls = [call for call in found if call is not None]
        return calls if len(calls) == len(found) else []

    def _call(self, value: Any) -> tuple[str, str] | None:
        if not isinstance(value, dict) or not isinstance(value.get("name"), str):
            return None
        key = next((key for key in self.argument_keys if key in value), None)
        if key is None:
            return None
        return value["name"], json.dumps(value[key] if value[key] is not None else {}, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class BarePython:
    """A list of calls, `[f(a=1), g()]`."""

    def read(self, reading: Reading) -> Reader[None]:
        cursor = reading.cursor
        yield from cursor.spaces()
        if (yield from cursor.peek()) != "[":
            return
        cursor.mark()
        try:
            yield from PythonCall().read_list(reading)
        except Malformed:
            reading.out.text(cursor.unmark())
        else:
            cursor.unmark()
