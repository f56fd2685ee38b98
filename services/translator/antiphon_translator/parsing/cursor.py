"""Text that arrives in parts, read by generators that wait for more.

A reader is a generator. It `yield`s when it cannot go on before more text came, and is resumed after `feed` or
`finish`; readers call readers with `yield from`. Only this module touches the buffer, so where the text was cut cannot
matter to anything that is built on it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import TypeVar

from antiphon_translator.parsing.json_scan import JsonScan

_Value = TypeVar("_Value")

Reader = Generator[None, None, _Value]
Emit = Callable[[str], None]

SPACES_LOOKED_BEHIND = 256
"""So many white-space characters may stand before what `comes_next` looks for."""

_SPACES = re.compile(r"\s*")
_SOME_SPACES = re.compile(rf"\s{{0,{SPACES_LOOKED_BEHIND}}}")


def nowhere(_text: str) -> None:
    """Where text goes that stands for nothing."""


class Markers:
    """Literals to be looked for, together: of two at one place the longer counts."""

    def __init__(self, literals: Iterable[str]) -> None:
        found = sorted(set(literals), key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, found)) if found else r"(?!)")
        self._beginnings = {literal[:length] for literal in found for length in range(1, len(literal))}
        self._longest = len(found[0]) if found else 0
        first = "".join(re.escape(each) for each in {literal[0] for literal in found if len(literal) > 1})
        self._first = re.compile(f"[{first}]") if first else None

    def search(self, text: str, start: int, *, ended: bool) -> tuple[int, int, str | None]:
        """What may be passed on up to where, where to go on, and the literal that was found there, if one was.

        The end of the text that may be the beginning of a literal is not passed on, and neither is a literal within it
        or behind: the first one counts, and it is not known yet."""
        match = self._pattern.search(text, start)
        begins = len(text) if ended else self._beginning(text, start)
        if match is not None and (ended or match.start() < begins):
            return match.start(), match.end(), match.group()
        return begins, begins, None

    def _beginning(self, text: str, start: int) -> int:
        """Where the first beginning of a literal is that the text ends with; the end of the text when there is none."""
        if self._first is not None:
            for candidate in self._first.finditer(text, max(start, len(text) - self._longest + 1)):
                if text[candidate.start() :] in self._beginnings:
                    return candidate.start()
        return len(text)


class Cursor:
    """A place in a text that is still being written."""

    def __init__(self) -> None:
        self._text = ""
        self._at = 0
        self._mark: int | None = None
        self._kept: list[str] = []  # what was read since the mark, and is no longer in the buffer
        self._ended = False
        self.is_cut_off = False
        """The text has ended, and would have gone on."""

    # ---- for whoever has the text ----

    def feed(self, text: str) -> None:
        if self._mark is not None:
            self._kept.append(self._text[self._mark : self._at])
            self._mark = 0
        self._text = self._text[self._at :] + text
        self._at = 0

    def finish(self, *, cut_off: bool = False) -> None:
        """No more text will come: whoever waits has to decide by what is there."""
        self._ended = True
        self.is_cut_off = cut_off

    # ---- primitives of readers ----

    def until(self, markers: Markers, emit: Emit) -> Reader[str | None]:
        """Passes text on up to the first marker and goes behind it; which it was, or None at the end of the text. When
        text is passed on, the cursor stands right behind it."""
        while True:
            start = self._at
            end, behind, marker = markers.search(self._text, start, ended=self._ended)
            self._at = end
            if end > start:
                emit(self._text[start:end])
            self._at = behind
            if marker is not None or self._ended:
                return marker
            yield

    def literal(self, wanted: str) -> Reader[bool]:
        """Goes behind a literal, if it is what comes next."""
        while True:
            here = self._text[self._at : self._at + len(wanted)]
            if here == wanted:
                self._at += len(wanted)
                return True
            if self._ended or not wanted.startswith(here):
                return False
            yield

    def one_of(self, literals: Iterable[str]) -> Reader[str | None]:
        """Goes behind the first of these literals that comes next, in their order."""
        for wanted in literals:
            if (yield from self.literal(wanted)):
                return wanted
        return None

    def spaces(self) -> Reader[None]:
        """Goes behind white space."""
        while True:
            match = _SPACES.match(self._text, self._at)
            assert match is not None  # noqa: S101 - it matches nothing as well
            self._at = match.end()
            if self._at < len(self._text) or self._ended:
                return
            yield

    def peek(self) -> Reader[str]:
        """The next character; empty at the end of the text."""
        while self._at >= len(self._text) and not self._ended:
            yield
        return self._text[self._at : self._at + 1]

    def take(self, length: int) -> Reader[str]:
        """Goes behind so many characters; fewer at the end of the text."""
        while len(self._text) - self._at < length and not self._ended:
            yield
        taken = self._text[self._at : self._at + length]
        self._at += len(taken)
        return taken

    def json_value(self, emit: Emit) -> Reader[bool]:
        """Passes one JSON value on, as it is written, and goes behind it. False: the text ended within it, or what
        comes next cannot be one; brackets and strings are looked at, not more."""
        yield from self.spaces()
        if not (yield from self.peek()):
            return False
        return (yield from self._scanned(JsonScan(), emit))

    def _scanned(self, scan: JsonScan, emit: Emit) -> Reader[bool]:
        while True:
            end = scan.feed(self._text, self._at, ended=self._ended)
            if end > self._at:
                emit(self._text[self._at : end])
            self._at = end
            if scan.is_done or scan.is_broken or self._ended:
                return scan.is_done
            yield

    def python_list(self, emit: Emit) -> Reader[bool]:
        """As `json_value`, for a list in Python's syntax, whose strings have either quote."""
        scan = JsonScan(quotes="\"'", brackets="()[]{}")
        return (yield from self._scanned(scan, emit))

    def comes_next(self, literals: Sequence[str]) -> Reader[bool]:
        """Whether one of these comes next, or the end of the text, some white space aside. Goes nowhere."""
        longest = max(map(len, literals))
        while True:
            match = _SOME_SPACES.match(self._text, self._at)
            start = match.end() if match is not None else self._at
            here = self._text[start : start + longest]
            if here.startswith(tuple(literals)):
                return True
            if self._ended or not any(literal.startswith(here) for literal in literals):
                return not here
            yield

    @property
    def is_at_end(self) -> bool:
        """Whether the text has ended, and all of it was read."""
        return self._ended and self._at >= len(self._text)

    # ---- going back ----

    @property
    def is_marked(self) -> bool:
        return self._mark is not None

    def mark(self) -> None:
        """From here on, what is read is kept until `unmark`. There is one mark at a time."""
        self._mark = self._at
        self._kept.clear()

    def unmark(self) -> str:
        """What was read since `mark`; empty when there is none."""
        since = "".join(self._kept) + self._text[self._mark : self._at] if self._mark is not None else ""
        self._mark = None
        self._kept.clear()
        return since

    def back(self, text: str) -> None:
        """Puts what was read last, within this step, in front again."""
        self._at -= len(text)
