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
    """Where a model thinks, a call of a tool that was not offered is a thought."""
    noise: list[str] = field(default_factory=list)
    """Text between the beginning of a section and its first call."""

    def commit(self) -> None:
        """From here on it is a call, and no text any more. Malformed: this is known too late."""
        self.cursor.unmark()
        if self.noise:
            self.out.drop("".join(self.noise))
            self.noise.clear()

    def begin_call(self, name: str, model_id: str | None = None) -> None:
        """Commits to a call of this tool. Malformed: that is no name, or none that counts here."""
        if not self.can_call(name):
            raise Malformed
        self.commit()
        self.out.begin_call(name, model_id)

    def can_call(self, name: str) -> bool:
        return self.is_offered(name) or (is_name(name) and not self.takes_offered_only)

    def is_offered(self, name: str) -> bool:
        """Whether the tool was offered, as far as is known."""
        return name in self.schemas or (not self.schemas and is_name(name))


def is_name(text: str) -> bool:
    """Whether a tool can be called that, whichever tools were offered: no markup, and not only digits."""
    return _NAME.fullmatch(text) is not None and not text.isdigit()


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
        """Reads what follows an opener, without the closer. It commits, or begins a call, as soon as something comes
        that only a call has. Malformed: where it was noticed is where it stops; before it has committed, the text is
        read again as what it is."""
