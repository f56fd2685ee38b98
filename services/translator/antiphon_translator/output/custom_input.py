"""Extracts the input of a custom tool from the JSON object around it, `{"input": "..."}`, while the model writes it.

A model is shown a custom tool as a function with one parameter. Arguments that are not such an object are the input
themselves, as they were written, so that the input is never lost.
"""

from __future__ import annotations

import json

from antiphon_translator.parsing import surrogate_escapes
from antiphon_translator.parsing.cursor import Cursor, Emit, Malformed, Reader
from antiphon_translator.parsing.markers import Markers

_KEY = '"input"'
_SPECIAL = Markers(('"', "\\"))
_ESCAPE_DIGITS = 4


class CustomInput:
    """Unwraps the arguments of one call."""

    def __init__(self) -> None:
        self._cursor = Cursor()
        self._found: list[str] = []
        self._steps = self._read()

    def feed(self, arguments: str) -> str:
        """Takes a piece of the arguments, and returns the piece of the input in it."""
        self._cursor.feed(arguments)
        return self._step()

    def finish(self) -> str:
        """Returns the rest of the input, at the end of the arguments."""
        self._cursor.finish()
        return self._step()

    def _step(self) -> str:
        self._cursor.step(self._steps)
        text = "".join(self._found)
        self._found.clear()
        return text

    def _read(self) -> Reader[None]:
        cursor, emit = self._cursor, self._found.append
        cursor.mark()
        if (yield from self._is_wrapped()):
            cursor.unmark()
            yield from _string(cursor, emit)
            return
        cursor.rewind()
        cursor.unmark()
        yield from cursor.until(Markers(()), emit)

    def _is_wrapped(self) -> Reader[bool]:
        """Whether the arguments are such an object. Moves behind the opening quote of the input."""
        try:
            for wanted in ("{", _KEY, ":", '"'):
                yield from self._cursor.spaces()
                if not (yield from self._cursor.literal(wanted)):
                    return False
        except Malformed:
            return False
        return True


def _string(cursor: Cursor, emit: Emit) -> Reader[None]:
    """Emits the rest of a JSON string, unescaped, up to its closing quote."""
    while (yield from cursor.until(_SPECIAL, emit)) == "\\":
        escape = yield from _escape(cursor)
        if surrogate_escapes.is_high(escape) and surrogate_escapes.is_low((yield from cursor.peek(len(escape)))):
            escape += yield from cursor.take(len(escape))
        try:
            emit(json.loads(f'"{surrogate_escapes.replace_escapes(escape)}"'))
        except ValueError:
            emit(escape)


def _escape(cursor: Cursor) -> Reader[str]:
    """Reads the rest of an escape sequence and returns the whole sequence, the backslash included."""
    letter = yield from cursor.take(1)
    digits = (yield from cursor.take(_ESCAPE_DIGITS)) if letter == "u" else ""
    return f"\\{letter}{digits}"
