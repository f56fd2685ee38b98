"""The state that the readers of calls share: the input cursor, the output, and the tools that were offered."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from antiphon_core.jsons import Object
from antiphon_translator.parsing.cursor import NAME_CHARACTER, Cursor, Malformed, Reader
from antiphon_translator.parsing.markup import Markup
from antiphon_translator.parsing.segments import Output

_NAME = re.compile(f"{NAME_CHARACTER}*[^\\W_]{NAME_CHARACTER}*")


@dataclass(slots=True)
class Reading:
    """One model output as it is being read. `schemas` are the parameters of the tools that were offered, by name."""

    cursor: Cursor
    out: Output
    schemas: Mapping[str, Object] = field(default_factory=dict)
    markup: Markup = field(default_factory=lambda: Markup((), ()))
    takes_offered_only: bool = False
    """Whether only tools that were offered can be called: in reasoning, in prose, and in calls without a marker."""
    noise: list[str] = field(default_factory=list)
    """The text read since the beginning of a section or its last call, held back until the next call is certain."""
    name: str | None = None
    """The name of the tool in the call that is being tried, once it is read."""

    def commit(self) -> None:
        """Leaves out the noise before a call and removes the mark, because it is certain now that a call is being read.
        Malformed: the mark is too far behind."""
        self.cursor.unmark()
        noise = "".join(self.noise)
        if noise.strip():
            self.out.unread("noise", len(noise))
        self.noise.clear()

    def note_name(self, name: str, *, is_certain: bool = True) -> None:
        """Keeps the name of the call that is being tried: if the call cannot be read, it is shown as an incomplete call
        of that name. `is_certain`: the name stands where only a name does; any other word has to be that of a tool
        that was offered."""
        if self.is_offered(name) or (is_certain and self.can_call(name)):
            self.name = name

    def show_unread(self, text: str) -> None:
        """Shows the text right before the cursor, which began as a call and is none: as an incomplete call if its name
        is known, else as text, without the markup around it. The arguments of such a call are all of its text, with
        its opener, so that no client takes them for arguments that it can run."""
        name, self.name = self.name, None
        self.noise.clear()
        if name is not None:
            self.out.begin_call(name)
            self.out.arguments(text)
            self.out.break_call()
        elif self.markup.is_all_of(text):
            self.out.unread("markers", len(text))
        else:
            _, body, behind = self.markup.parts(text)
            self.cursor.back(behind)  # the cursor must stand right behind a text when the text is emitted
            self.out.text(body)
            self.cursor.forth(behind)
            self.out.unread("text", len(text))

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
