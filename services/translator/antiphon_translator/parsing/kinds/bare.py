"""Calls that no marker opens, at the beginning of an answer: Llama 3 writes them as JSON, Llama 4 as Python.

Only a tool that was offered can be called in this way. All other output is read as text.
"""

from __future__ import annotations

from dataclasses import dataclass

from antiphon_translator.parsing.alphabet import plain
from antiphon_translator.parsing.cursor import Reader
from antiphon_translator.parsing.kinds.json_call import JsonCall
from antiphon_translator.parsing.kinds.python_call import PythonCall
from antiphon_translator.parsing.reading import Reading


@dataclass(frozen=True, slots=True)
class BareJson:
    """Objects like `{"name": ..., "parameters": {...}}`, with `;` or `,` between, or an array of them."""

    argument_keys: tuple[str, ...] = plain(("parameters", "arguments"))

    def read(self, reading: Reading) -> Reader[None]:
        yield from JsonCall(argument_keys=self.argument_keys, is_bare=True).read(reading)


@dataclass(frozen=True, slots=True)
class BarePython:
    """A list of calls, `[f(a=1), g()]`."""

    def read(self, reading: Reading) -> Reader[None]:
        yield from PythonCall().read(reading)
