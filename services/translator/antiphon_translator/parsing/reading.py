"""The state that the readers of calls share: the input cursor, the output, and the tools that were offered."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from antiphon_core.jsons import Object
from antiphon_translator.parsing.cursor import Cursor, Malformed, Reader
from antiphon_translator.parsing.segments import Output

_NAME = re.compile(r"[^\s<>{}\[\]()\"'`=|,;\ud800-\udfff]*[^\W_][^\s<>{}\[\]()\"'`=|,;\ud800-\udfff]*")


@dataclass(slots=True)
class Reading:
    """One model output as it is being read. `schemas` are the parameters of the tools that were offered, by name."""

    cursor: Cursor
    out: Output
    schemas: Mapping[str, Object] = field(default_factory=dict)
    takes_offered_only: bool = False
    """Whether only tools that were offered can be called: in reasoning, in prose, and in calls without a marker."""
    noise: list[str] = field(default_factory=list)
    """The text read since the beginning of a section or its last call, held back until the next call is certain."""

    def commit(self) -> None:
        """Drops the noise before a call and removes the mark, because it is certain now that a call is being read.
        Malformed: the mark is too far behind."""
        self.cursor.unmark()
        if self.noise:
            self.out.drop("".join(self.noise))
            self.noise.clear()

    def begin_call(self, name: str, model_id: str | None = None) -> None:
        """Commits, and begins a call of this tool. Malformed: no such tool can be called here."""
        if not self.can_call(name):
            raise Malformed
        self.commit()
        self.out.begin_call(name, model_id)

    def can_call(self, name: str) -> bool:
        return self.is_offered(name) or (is_name(name) and not self.takes_offered_only)

    def is_offered(self, name: str) -> bool:
        """Whether a tool of this name was offered. Without any schemas, every valid name was."""
        return name in self.schemas or (not self.schemas and is_name(name))


def is_name(text: str) -> bool:
    """Whether this may be the name of a tool, offered or not: it has no markup, and not only digits."""
    return _NAME.fullmatch(text) is not None and not text.isdigit()


class CallSyntax(Protocol):
    """The syntax of a family's calls.

    `open` are the literals that begin a call, `close` those that end it and may be missing. `section_open` and
    `section_close` are around a section of calls; other text in a section is dropped.
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
        """Reads the call behind an opener, up to its closer. It commits, or begins a call, as soon as the text can only
        be a call. Malformed: the text is no call. The cursor stays where that was noticed; if the reader has not
        committed, the parser rewinds and reads the text again."""
