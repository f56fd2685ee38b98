"""A cursor in text that arrives in chunks, read by generators that wait for more text.

A reader is a generator. It `yield`s when it needs more text to go on, and is resumed after `feed` or `finish`. Readers
call readers with `yield from`. Only this module touches the buffer, so that the result of a reader does not depend on
where the chunks were cut.
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
"""At most so many white-space characters are skipped before the literals that `comes_next` looks for."""
LOOKED_BEHIND_CHARS = 64
"""How much text before a marker is looked at: the line in which it stands."""
KEPT_CHARS = 2 * LOOKED_BEHIND_CHARS
"""How much text before the cursor is kept. The cursor may stand behind the marker while it waits."""
READ_CHARS_KEPT = 256
"""The buffer is cut only when more text than this was read: to cut it after each chunk costs more than to keep it."""

NAME_CHARACTER = r"[^\s<>{}\[\]()\"'`=|,;\ud800-\udfff]"
"""No markup, no brackets, no quotes: a control token is a lone surrogate (alphabet.py)."""

_SPACES = re.compile(r"\s*")
_WORD = re.compile(f"{NAME_CHARACTER}*")
_SOME_SPACES = re.compile(rf"\s{{0,{SPACES_LOOKED_BEHIND}}}")


def discard(_text: str) -> None:
    """A sink for text that is not part of the output."""


_NOTHING = Markers(())


class Malformed(Exception):
    """The next text does not have the syntax that the reader expects, or the output ended within it."""


class Cursor:
    """A position in text that is still arriving."""

    def __init__(self) -> None:
        self._text = ""
        self._at = 0
        self._base = 0  # the position of `_text` in all text
        self._mark: int | None = None  # an index of `_text`; negative after `_drop` removed the text at the mark
        self._behind_mark: list[str] = []
        self._found: str | None = None
        self._is_ready: Callable[[], bool] | None = None
        self._until: tuple[Callable[[], bool] | None, Markers, Emit] = (None, _NOTHING, discard)
        self._is_given_up = False
        self._is_mark_loose = False
        self._has_ended = False
        self.is_cut_off = False
        """The text has ended before the model was done, at its length limit for example."""

    # ---- for the caller that has the text ----

    def begin_with(self, text: str) -> None:
        """Puts the end of the prompt in front of the text that is fed. Its positions are negative."""
        self._text, self._base = text, -len(text)

    def feed(self, text: str) -> None:
        if self._at > READ_CHARS_KEPT and not self.is_marked:
            self._drop(self._at - KEPT_CHARS)
        self._text += text

    def _drop(self, length: int) -> None:
        """Removes text from the beginning of the buffer. Text behind a loosened mark is kept in `_behind_mark`."""
        if self._mark is not None:
            self._behind_mark.append(self._text[max(self._mark, 0) : length])
            self._mark -= length
        self._text = self._text[length:]
        self._at -= length
        self._base += length

    @property
    def run(self) -> tuple[Markers, Emit] | None:
        """The markers that end the run of text which is being read, and the function that gets its text. None if the
        cursor does not stand at the end of all text, waiting for more of a run, or may go back."""
        is_ready, markers, emit = self._until
        is_in_run = is_ready is self._is_ready is not None and self._mark is None and self._at == len(self._text)
        return (markers, emit) if is_in_run else None

    def skip(self, text: str) -> None:
        """Adds text of a `run` that was emitted elsewhere: it has no beginning of the run's markers."""
        self.feed(text)
        self._at = len(self._text)

    def finish(self, *, cut_off: bool = False) -> None:
        """Says that no more text will come: a reader that waits has to decide by the text that it has."""
        self._has_ended = True
        self.is_cut_off = cut_off

    def step(self, reader: Reader[_Value]) -> bool:
        """Lets a reader go on as far as the text allows. Returns whether the reader has ended.

        While a reader waits, only the primitive that it waits in looks at new text: a chunk of a long value costs the
        same with ten nested readers as with one."""
        is_ready = self._is_ready
        if is_ready is not None and not is_ready():
            if self._mark is None or not self._is_too_far():
                return False
            self._is_given_up = True
        return next(reader, self) is self

    # ---- primitives of readers ----

    def until(self, markers: Markers, emit: Emit) -> Reader[str | None]:
        """Emits the text up to the first marker and moves behind the marker. Returns the marker, or None at the end of
        the text. While `emit` runs, the cursor stands right behind the emitted text."""

        def advance() -> bool:
            text, start = self._text, self._at
            if markers.first.search(text, start) is None:
                end, behind, found = len(text), len(text), None
            else:
                end, behind, found = markers.search(text, start, ended=self._has_ended)
            if end > start:
                self._at = end
                emit(text[start:end])
            self._at, self._found = behind, found
            return found is not None or self._has_ended

        if not advance():
            self._until = advance, markers, emit
            yield from self._wait(advance)
        return self._found

    def literal(self, wanted: str) -> Reader[bool]:
        """Moves behind a literal if the text goes on with it. Returns whether it did."""
        if not wanted.startswith(self._ahead(len(wanted))):
            return False
        yield from self._more(lambda here: len(here) >= len(wanted) or not wanted.startswith(here), len(wanted))
        if self._ahead(len(wanted)) != wanted:
            return False
        self._at += len(wanted)
        return True

    def one_of(self, literals: Iterable[str]) -> Reader[str | None]:
        """Moves behind the first of these literals, in their order, with which the text goes on. Returns it."""
        for wanted in literals:
            if (yield from self.literal(wanted)):
                return wanted
        return None

    def spaces(self) -> Reader[None]:
        """Moves behind white space."""
        yield from self._run_of(_SPACES, discard)

    def word(self) -> Reader[str]:
        """Moves behind text that may be the name of a tool, and returns it; empty if none comes next."""
        written: list[str] = []
        yield from self._run_of(_WORD, written.append)
        return "".join(written)

    def peek(self, length: int = 1) -> Reader[str]:
        """The next `length` characters; fewer at the end of the text."""
        yield from self._more(lambda here: len(here) >= length, length)
        return self._ahead(length)

    def take(self, length: int) -> Reader[str]:
        """Moves behind the next `length` characters and returns them; fewer at the end of the text."""
        taken = yield from self.peek(length)
        self._at += len(taken)
        return taken

    def json_value(self, emit: Emit) -> Reader[bool]:
        """Emits one JSON value, as it is written, and moves behind it. False: the text ended within the value, or goes
        on with something else. Only brackets and strings are checked."""
        yield from self.spaces()
        if not (yield from self.peek()):
            return False
        return (yield from self._scan(JsonScan(), emit))

    def python_list(self, emit: Emit, *, depth: int = 0) -> Reader[bool]:
        """Emits a list in Python's syntax, whose strings have either quote, and moves behind it. `depth` is the number
        of brackets that are open already. False as with `json_value`."""
        scan = JsonScan(quotes="\"'", brackets="()[]{}", depth=depth)
        return (yield from self._scan(scan, emit))

    def comes_next(self, literals: Sequence[str]) -> Reader[bool]:
        """Whether one of these literals or the end of the text comes next, behind some white space. Does not move the
        cursor."""
        literals = tuple(literals)
        longest = max(map(len, literals), default=0)

        def here() -> str:
            match = _SOME_SPACES.match(self._text, self._at)
            start = match.end() if match is not None else self._at
            return self._text[start : start + longest]

        def is_known() -> bool:
            text = here()
            return self._has_ended or text.startswith(literals) or not any(each.startswith(text) for each in literals)

        if not is_known():
            yield from self._wait(is_known)
        return not here() or here().startswith(literals)

    def find_ahead(self, markers: Markers) -> Reader[str | None]:
        """The first of these markers in the next GIVE_BACK_CHARS_MAX characters; None if there is none. Does not move
        the cursor."""
        found: list[str | None] = [None]

        def is_known() -> bool:
            end, _, found[0] = markers.search(self._text, self._at, ended=self._has_ended)
            if end - self._at > GIVE_BACK_CHARS_MAX:
                found[0] = None
                return True
            return found[0] is not None or self._has_ended

        if not is_known():
            yield from self._wait(is_known)
        return found[0]

    @property
    def is_at_end(self) -> bool:
        """Whether the text has ended, and all of it was read."""
        return self._has_ended and self._at >= len(self._text)

    @property
    def position(self) -> int:
        """How many of the fed characters stand before the cursor; 0 or less within the text of `begin_with`."""
        return self._base + self._at

    def behind(self, literal: str) -> str:
        """The last LOOKED_BEHIND_CHARS of text before a literal that was just read."""
        end = self._at - len(literal)
        return self._text[max(0, end - LOOKED_BEHIND_CHARS) : end]

    # ---- going back ----

    @property
    def is_marked(self) -> bool:
        """Whether there is a mark to `rewind` to: not one that was loosened and is too far behind."""
        return self._mark is not None and not (self._is_mark_loose and self._is_far_behind())

    @property
    def text_behind_mark(self) -> str:
        """The text between the mark and the cursor; empty without a mark."""
        if self._mark is None:
            return ""
        return "".join((*self._behind_mark, self._text[max(self._mark, 0) : self._at]))

    def mark(self) -> None:
        """Marks the position to which `rewind` returns, until `unmark`. There is one mark at a time.

        A reader that waits more than GIVE_BACK_CHARS_MAX behind the mark gets Malformed."""
        self._mark = self._at
        self._behind_mark.clear()
        self._is_mark_loose = False

    def unmark(self) -> None:
        """Removes the mark: the text behind it cannot be read again. Malformed: the mark is too far behind, and was not
        loosened."""
        if self._is_too_far():
            raise Malformed
        self._mark = None

    def loosen_mark(self) -> None:
        """Lets a reader go on however far the mark is behind: for text that is needed as a whole. Such text is never
        read again, so that no output is read more than a few times."""
        self._is_mark_loose = True

    def rewind(self) -> None:
        """Moves back to the mark, and keeps the mark."""
        if self._mark is not None:
            self._at = self._mark

    def back(self, text: str) -> None:
        """Moves back over text that was read last, within the same step."""
        self._at -= len(text)

    def forth(self, text: str) -> None:
        """Moves over text again that `back` moved back over, within the same step."""
        self._at += len(text)

    # ---- waiting ----

    def _wait(self, is_ready: Callable[[], bool]) -> Reader[None]:
        if self._is_too_far():
            raise Malformed
        self._is_ready = is_ready
        yield
        self._is_ready = None
        if self._is_given_up:
            self._is_given_up = False
            raise Malformed

    def _is_too_far(self) -> bool:
        """Whether a reader has to give up: the mark is too far behind, and was not loosened."""
        return not self._is_mark_loose and self._is_far_behind()

    def _is_far_behind(self) -> bool:
        return self._mark is not None and self._at - self._mark > GIVE_BACK_CHARS_MAX

    def _ahead(self, length: int) -> str:
        return self._text[self._at : self._at + length]

    def _more(self, is_enough: Callable[[str], bool], length: int) -> Reader[None]:
        """Waits until `is_enough` accepts the next `length` characters, or the text has ended."""

        def is_ready() -> bool:
            return self._has_ended or is_enough(self._ahead(length))

        if not is_ready():
            yield from self._wait(is_ready)

    def _run_of(self, pattern: re.Pattern[str], emit: Emit) -> Reader[None]:
        """Emits the characters from here on that match a pattern of one character class, and moves behind them."""

        def advance() -> bool:
            match = pattern.match(self._text, self._at)
            if match is not None and match.end() > self._at:
                self._at = match.end()
                emit(match.group())
            return self._has_ended or self._at < len(self._text)

        if not advance():
            yield from self._wait(advance)

    def _scan(self, scan: JsonScan, emit: Emit) -> Reader[bool]:
        def advance() -> bool:
            start = self._at
            self._at = scan.feed(self._text, start, ended=self._has_ended)
            if self._at > start:
                emit(self._text[start : self._at])
            return scan.is_done or scan.is_broken or self._has_ended

        if not advance():
            yield from self._wait(advance)
        return scan.is_done
