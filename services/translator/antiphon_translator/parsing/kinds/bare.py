"""Calls without any marker, at the beginning of what a model says: Llama 3 writes JSON there, Llama 4 Python.

What looks like a call and is none is text, all of it, as it was written.
"""

from __future__ import annotations

from dataclasses import dataclass

from antiphon_translator.parsing.cursor import Reader
from antiphon_translator.parsing.kinds.json_call import JsonCall
from antiphon_translator.parsing.kinds.python_call import PythonCall
from antiphon_translator.parsing.reading import CallSyntax, Malformed, Reading


@dataclass(frozen=True, slots=True)
class BareJson:
    """Objects like `{"name": ..., "parameters": {...}}`, with `;` or `,` between, or an array of them."""

    argument_keys: tuple[str, ...] = ("parameters", "arguments")
    separators: tuple[str, ...] = (";", ",")

    def read(self, reading: Reading) -> Reader[None]:
        syntax = JsonCall(argument_keys=self.argument_keys, needs_arguments=True)
        separators: tuple[str, ...] = ()
        while (yield from _read_or_give_back(syntax, reading, separators)):
            separators = self.separators


@dataclass(frozen=True, slots=True)
class BarePython:
    """A list of calls, `[f(a=1), g()]`."""

    def read(self, reading: Reading) -> Reader[None]:
        yield from _read_or_give_back(PythonCall(), reading)


def _read_or_give_back(syntax: CallSyntax, reading: Reading, separators: tuple[str, ...] = ()) -> Reader[bool]:
    """Reads what follows one of the separators, if there are any; whether it was a call. What was none is text."""
    cursor, out = reading.cursor, reading.out
    cursor.mark()
    try:
        yield from cursor.spaces()
        if separators and (yield from cursor.one_of(separators)) is None:
            raise Malformed
        yield from cursor.spaces()
        yield from syntax.read(reading)
    except Malformed:
        if out.in_call:
            out.break_call()
        out.text(cursor.unmark())
        return False
    return True
