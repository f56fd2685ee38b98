"""What the readers of calls share: where they read, where they write, and what was offered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from antiphon_core.jsons import Object
from antiphon_translator.parsing.cursor import Cursor, Reader
from antiphon_translator.parsing.segments import Output


class Malformed(Exception):
    """What comes next is not a call of this syntax, or the text ended within it."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One model output as it is being read. `schemas` are the parameters of the tools that were offered, by name."""

    cursor: Cursor
    out: Output
    schemas: Mapping[str, Object] = field(default_factory=dict)

    def begin_call(self, name: str, model_id: str | None = None) -> None:
        """From here on it is a call, and no text any more. Malformed: that is no name."""
        if not is_name(name):
            raise Malformed
        self.cursor.unmark()
        self.out.begin_call(name, model_id)


def is_name(text: str) -> bool:
    """Whether a tool can be called that, whichever tools were offered."""
    return bool(text) and not any(map(str.isspace, text))


class CallSyntax(Protocol):
    """How one family writes a call down.

    `open` are the literals that begin one, `close` those that end it and may be missing. Where a section holds calls,
    `section_open` and `section_close` are around them, and what else stands in it is dropped.
    """

    @property
    def open(self) -> tuple[str, ...]: ...

    @property
    def close(self) -> tuple[str, ...]: ...

    @property
    def section_open(self) -> tuple[str, ...]: ...

    @property
    def section_close(self) -> tuple[str, ...]: ...

    def read(self, reading: Reading) -> Reader[None]:
        """Reads what follows an opener, the closer included. Malformed: where it was noticed is where it stops."""
