"""Text that arrives in parts, read by generators that wait for more.

A reader is a generator. It `yield`s when it cannot go on before more text came, and is resumed after `feed` or
`finish`; readers call readers with `yield from`. Only this module touches the buffer, so where the text was cut cannot
matter to anything that is built on it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import TypeVar

from antiphon_core.limits import GIVE_BACK_CHARS_MAX
from antiphon_translator.parsing.json_scan import JsonScan
from antiphon_translator.parsing.markers import Markers

_Value = TypeVar("_Value")

Reader = Generator[None, None, _Value]
Emit = Callable[[str], None]

SPACES_LOOKED_BEHIND = 256
"""So many white-space characters may stand before what `comes_next` looks for."""
LOOKED_BEHIND_CHARS = 64
"""So much of what was read is still there: the line in which a marker stands."""
READ_CHARS_KEPT = 256
"""Text that was read is dropped in pieces of this size: dropping each piece by itself costs more than keeping it."""

_SPACES = re.compile(r"\s*")
# No markup, no brackets, no quotes: a control token is a lone surrogate (alphabet.py).
_WORD = re.compile(r"[^\s<>{}\[\]()\"'`=|,;\ud800-\udfff]*")
_SOME_SPACES = re.compile(rf"\s{{0,{SPACES_LOOKED_BEHIND}}}")


def discard(_text: str) -> None:
    """A sink of text that stands for nothing."""


class Malformed(Exception):
    """The next text is not a call of this syntax, or the text ended within the call."""


class Cursor:
    """A place in a text that is still being written."""

    def __init__(self) -> None:
        self._text = ""
        self._at = 0
        self._base = 0  # the place of `_text` in all text
        self._mark: int | None = None
        self._found: str | None = None
        self._is_ready: Callable[[], bool] | None = None
        self._gives_up = False
        self._may_let_go = False
        self._ended = False
        self.is_cut_off = False
        """The text has ended, and would have gone on."""

    # ---- for the caller that has the text ----

    def begin_with(self, text: str) -> None:
        """Text that stands before all that is fed, and has no place in it."""
        self._text, self._base = text, -len(text)

    def feed(self, text: str) -> None:
        if self._at > READ_CHARS_KEPT and self._mark is None:
            read = self._at - LOOKED_BEHIND_CHARS
            self._text = self._text[read:] + text
            self._at = LOOKED_BEHIND_CHARS
            self._base += read
        else:
            self._text += text

    def finish(self, *, cut_off: bool = False) -> None:
        """No more text will come: a reader that waits has to decide by what is there."""
        self._ended = True
        self.is_cut_off = cut_off

    def step(self, reader: Reader[_Value]) -> bool:
        """Lets a reader go on as far as the text allows; whether it has ended.

        While a reader waits, only the primitive that it waits in looks at new text: a piece of a long value costs as
        much with ten readers around it as with one."""
        is_ready = self._is_ready
        if is_ready is not None and not is_ready():
            if self._mark is None or not self._is_too_far():
                return False
            if self._may_let_go:
                self._mark = None
                return False
            self._gives_up = True
        return next(reader, self) is self

    # ---- primitives of readers ----

    def until(self, markers: Markers, emit: Emit) -> Reader[str | None]:
        """Passes text on up to the first marker and goes behind it; which it was, or None at the end of the text. When
        text is passed on, the cursor stands right behind it."""

        search = markers.search

        def advance() -> bool:
            text, start = self._text, self._at
            end, behind, found = search(text, start, ended=self._ended)
            if end > start:
                self._at = end
                emit(text[start:end])
            self._at, self._found = behind, found
            return found is not None or self._ended

        if not advance():
            yield from self._wait(advance)
        return self._found

    def literal(self, wanted: str) -> Reader[bool]:
        """Goes behind a literal, if it is what comes next."""
        if not wanted.startswith(self._ahead(len(wanted))):
            return False
        yield from self._more(lambda here: len(here) >= len(wanted) or not wanted.startswith(here), len(wanted))
        if self._ahead(len(wanted)) != wanted:
            return False
        self._at += len(wanted)
        return True

    def one_of(self, literals: Iterable[str]) -> Reader[str | None]:
        """Goes behind the first of these literals that comes next, in their order."""
        for wanted in literals:
            if (yield from self.literal(wanted)):
                return wanted
        return None

    def spaces(self) -> Reader[None]:
        """Goes behind white space."""
        yield from self._all_of(_SPACES, discard)

    def word(self) -> Reader[str]:
        """Goes behind what may be the name of a tool: empty where none comes next."""
        written: list[str] = []
        yield from self._all_of(_WORD, written.append)
        return "".join(written)

    def peek(self, length: int = 1) -> Reader[str]:
        """The next characters; fewer at the end of the text."""
        yield from self._more(lambda here: len(here) >= length, length)
        return self._ahead(length)

    def take(self, length: int) -> Reader[str]:
        """Goes behind so many characters; fewer at the end of the text."""
        taken = yield from self.peek(length)
        self._at += len(taken)
        return taken

    def json_value(self, emit: Emit) -> Reader[bool]:
        """Passes one JSON value on, as it is written, and goes behind it. False: the text ended within it, or what
        comes next cannot be one; brackets and strings are looked at, not more."""
        yield from self.spaces()
        if not (yield from self.peek()):
            return False
        return (yield from self._scanned(JsonScan(), emit))

    def python_list(self, emit: Emit, *, depth: int = 0) -> Reader[bool]:
        """Reads a list in Python's syntax, whose strings have either quote. `depth` is how many brackets
        are open already."""
        scan = JsonScan(quotes="\"'", brackets="()[]{}", depth=depth)
        return (yield from self._scanned(scan, emit))

    def comes_next(self, literals: Sequence[str]) -> Reader[bool]:
        """Whether one of these comes next, or the end of the text, some white space aside. Goes nowhere."""
        literals = tuple(literals)
        longest = max(map(len, literals), default=0)

        def here() -> str:
            match = _SOME_SPACES.match(self._text, self._at)
            start = match.end() if match is not None else self._at
            return self._text[start : start + longest]

        def is_known() -> bool:
            text = here()
            return self._ended or text.startswith(literals) or not any(each.startswith(text) for each in literals)

        if not is_known():
            yield from self._wait(is_known)
        return not here() or here().startswith(literals)

    @property
    def is_at_end(self) -> bool:
        """Whether the text has ended, and all of it was read."""
        return self._ended and self._at >= len(self._text)

    @property
    def position(self) -> int:
        """How many characters stand before the cursor."""
        return self._base + self._at

    def behind(self, literal: str) -> str:
        """Some of the text before a literal that was read last."""
        end = self._at - len(literal)
        return self._text[max(0, end - LOOKED_BEHIND_CHARS) : end]

    # ---- going back ----

    @property
    def is_marked(self) -> bool:
        return self._mark is not None

    def mark(self) -> None:
        """From here on, what is read can be read again, until `unmark`. There is one mark at a time.

        Malformed is raised where a reader is more than GIVE_BACK_CHARS_MAX behind it."""
        self._mark = self._at

    def unmark(self) -> None:
        """Counts the text that was read. Malformed: it was too much."""
        if self._is_too_far():
            raise Malformed
        self._mark = None

    def let_go(self, *, is_over: bool = False) -> None:
        """From here on, what was read counts as soon as it is too much to be given back; `is_over` ends that."""
        self._may_let_go = not is_over
        if is_over and self._is_too_far():
            self._mark = None

    def rewind(self) -> None:
        """Goes back to the mark, which stays."""
        if self._mark is not None:
            self._at = self._mark

    def back(self, text: str) -> None:
        """Puts what was read last, within this step, in front again."""
        self._at -= len(text)

    # ---- waiting ----

    def _wait(self, is_ready: Callable[[], bool]) -> Reader[None]:
        if self._is_too_far():
            if not self._may_let_go:
                raise Malformed
            self._mark = None
        self._is_ready = is_ready
        yield
        self._is_ready = None
        if self._gives_up:
            self._gives_up = False
            raise Malformed

    def _is_too_far(self) -> bool:
        return self._mark is not None and self._at - self._mark > GIVE_BACK_CHARS_MAX

    def _ahead(self, length: int) -> str:
        return self._text[self._at : self._at + length]

    def _more(self, is_enough: Callable[[str], bool], length: int) -> Reader[None]:
        """Waits until so much of the text is there that it is enough, or the text has ended."""

        def is_ready() -> bool:
            return self._ended or is_enough(self._ahead(length))

        if not is_ready():
            yield from self._wait(is_ready)

    def _all_of(self, pattern: re.Pattern[str], emit: Emit) -> Reader[None]:
        """Passes on what a pattern of one kind of characters finds from here on."""

        def advance() -> bool:
            match = pattern.match(self._text, self._at)
            if match is not None and match.end() > self._at:
                self._at = match.end()
                emit(match.group())
            return self._ended or self._at < len(self._text)

        if not advance():
            yield from self._wait(advance)

    def _scanned(self, scan: JsonScan, emit: Emit) -> Reader[bool]:
        def advance() -> bool:
            start = self._at
            self._at = scan.feed(self._text, start, ended=self._ended)
            if self._at > start:
                emit(self._text[start : self._at])
            return scan.is_done or scan.is_broken or self._ended

        if not advance():
            yield from self._wait(advance)
        return scan.is_done
