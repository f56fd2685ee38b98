"""The segments that the parser returns, in order, and the rule for white space that only separates them.

    text, reasoning      as the model wrote it, without outer white space next to reasoning and calls
    a call               its name, its arguments piece by piece, its end
    unread               a note that output which began as a call could not be read as one

If log probabilities are wanted, texts come with the tokens that wrote them, as `ScoredText`.

The pieces of a call's arguments, joined, are JSON, as the model wrote it or as made from its family's own notation.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Literal, NoReturn

from antiphon_core.values import value
from antiphon_translator.parsing.stop_texts import StopTexts


@value
class Text:
    text: str


@value
class Reasoning:
    text: str


@value
class Refusal:
    """The model's refusal to answer, from an engine that tells it apart from an answer."""

    text: str


@value
class CallBegin:
    """The beginning of a call of the tool `name`, as the model spelt it. `model_id` is the id that the model gave the
    call, if it gave one."""

    name: str
    model_id: str | None = None


@value
class Arguments:
    text: str


@value
class CallEnd:
    """The end of a call. `is_complete`: its arguments are a complete JSON object. Otherwise the call was broken off."""

    is_complete: bool


@value
class Break:
    """The end of a run of text or reasoning, even if the next run is of the same kind. `phase` is the model's name for
    the next text, if its format has names for phases."""

    phase: str | None = None


UnreadCause = Literal["call", "text", "noise", "markers"]
"""The fate of output that could not be read as a call: an incomplete `call`, a `text`, or nothing, because it was
`noise` between the markers of readable calls, or `markers` with nothing between them."""


@value
class Unread:
    """A note that `length` characters of the output could not be read as a call. It is logged and counted."""

    cause: UnreadCause
    length: int


@value
class Candidate:
    """A token that the model could have chosen: its bytes and its log probability."""

    written: bytes
    logprob: float


@value
class ScoredToken:
    """A token that was chosen, and in `top` the likeliest tokens at its position, likeliest first."""

    written: bytes
    logprob: float
    top: tuple[Candidate, ...] = ()


@value
class ScoredText:
    """A text with the tokens that begin in it."""

    text: str
    tokens: tuple[ScoredToken, ...]


Segment = Text | Reasoning | Refusal | CallBegin | Arguments | CallEnd | Break | Unread | ScoredText


class TextRun:
    """A run of text of one kind, up to the first of its `stops`. Text that may be the beginning of one of these, and
    white space at the end of the run, are held back until more text of the run follows."""

    def __init__(
        self, segment: Callable[[str], Text | Reasoning], *, keeps_leading: bool, stops: Sequence[str] = ()
    ) -> None:
        self._segment = segment
        self._held: list[str] = []
        self._keeps_leading = keeps_leading
        self._stops = StopTexts(stops) if stops else None

    @property
    def is_stopped(self) -> bool:
        """Whether one of the `stops` was found."""
        return self._stops is not None and self._stops.is_matched

    @property
    def is_clear(self) -> bool:
        """Whether more text comes out as it is, but for white space at its end: none is held back or searched."""
        return not self._held and self._stops is None

    def may_stop_in(self, text: str) -> bool:
        """Whether more text might complete one of the `stops`."""
        return self._stops is not None and self._stops.may_match_in(text)

    def add(self, text: str, to: list[Segment]) -> None:
        self._write(text if self._stops is None else self._search_stop(text, self._stops), to)

    def _search_stop(self, text: str, stops: StopTexts) -> str:
        """The text that is no part of a stop. White space that is left out before a text is not searched."""
        return stops.feed(text if self._keeps_leading or stops.withheld else text.lstrip())

    def _end_search(self, to: list[Segment]) -> None:
        """Emits the text that was held back as the beginning of a stop."""
        if self._stops is not None:
            self._write(self._stops.finish(), to)

    def _write(self, text: str, to: list[Segment]) -> None:
        """Emits text without the white space at its end."""
        body = text.rstrip()
        if not body:
            self._held.append(text)
            return
        whole = "".join((*self._held, body)) if self._held else body
        self._held = [text[len(body) :]] if len(body) < len(text) else []
        to.append(self._segment(whole if self._keeps_leading else whole.lstrip()))
        self._keeps_leading = True

    def end(self, to: list[Segment]) -> None:
        """Drops the white space that was held back, because something else follows the run."""
        self._end_search(to)
        self._held, self._keeps_leading = [], False

    def finish(self, to: list[Segment]) -> None:
        """Emits the white space that was held back: at the end of the output it is part of the answer."""
        self._end_search(to)
        held, self._held = "".join(self._held), []
        if self._keeps_leading and held:
            to.append(self._segment(held))
        self._keeps_leading = False


class Output:
    """Collects segments until they are taken. The output ends at the first of `stops` in its texts."""

    def __init__(self, stops: Sequence[str] = ()) -> None:
        self._segments: list[Segment] = []
        self._end: int | None = None
        """The number of segments up to a stop that was found. Those behind it are dropped."""
        self._has_stops = bool(stops)
        self._text = TextRun(Text, keeps_leading=True, stops=stops)
        self._reasoning = TextRun(Reasoning, keeps_leading=False)
        self._run: TextRun | None = None
        """The run that was written last; None if something else followed it."""
        self._arguments: list[str] = []
        self.is_in_call = False
        self.is_in_reasoning = False
        self.is_cut_off = False
        """Whether the output has ended before the model was done."""

    @property
    def is_stopped(self) -> bool:
        """Whether a stop was found."""
        return self._end is not None

    def take(self) -> list[Segment]:
        segments, self._segments = self._segments, []
        if self._end is not None:
            del segments[self._end :]
            self._end = 0
        return segments

    def text(self, text: str) -> None:
        if self._run is not self._text:
            self._begin_run(self._text, self._reasoning)
        self._text.add(text, self._segments)
        if self._has_stops and self._text.is_stopped and self._end is None:
            self._text.finish(self._segments)
            self._end = len(self._segments)

    def reasoning(self, text: str) -> None:
        if self._run is not self._reasoning:
            self._begin_run(self._reasoning, self._text)
        self._reasoning.add(text, self._segments)

    def run_of(self, emit: Callable[[str], None]) -> type[Text | Reasoning] | None:
        """The segments of the text that is passed to `emit`. None if it is not text of the current run, or might come
        out changed or not at once. Text in which stops are searched is passed to `emit` (`add_to_run`)."""
        if self._run is self._text and emit == self.text:
            return Text if self._has_stops or self._text.is_clear else None
        if self._run is self._reasoning and emit == self.reasoning:
            return Reasoning if self._reasoning.is_clear else None
        return None

    def add_to_run(self, text: str) -> None:
        """Adds text to the current run, of which `run_of` told the segments."""
        if self._run is self._text:
            self.text(text)
        else:
            self.reasoning(text)

    def may_stop_in(self, text: str) -> bool:
        """Whether more text of the current run might complete one of the stops."""
        return self._run is self._text and self._text.may_stop_in(text)

    def end_reasoning(self) -> None:
        """Ends reasoning that may have been empty: white space behind it does not begin the answer."""
        if self._run is None:
            self._text.end(self._segments)

    def refusal(self, text: str) -> None:
        self._leave_call()
        self._end_runs()
        self._segments.append(Refusal(text))

    def separate(self, phase: str | None = None) -> None:
        """Ends the run, so that the next text begins another one even if it is of the same kind."""
        self._leave_call()
        self._end_runs()
        self._segments.append(Break(phase))

    def unread(self, cause: UnreadCause, length: int) -> None:
        """Notes that this many characters of the output could not be read as a call. Of an output that was cut off,
        the rest is not noted: the model was not done with it."""
        if not self.is_cut_off:
            self._segments.append(Unread(cause, length))

    def begin_call(self, name: str, model_id: str | None = None) -> None:
        self._leave_call()
        self._end_runs()
        self.is_in_call, self.is_in_reasoning = True, False
        self._segments.append(CallBegin(name, model_id))

    def arguments(self, text: str) -> None:
        if text:
            self._arguments.append(text)
            self._segments.append(Arguments(text))

    @property
    def has_arguments(self) -> bool:
        """Whether the current call has any arguments so far."""
        return bool(self._arguments)

    def end_call(self) -> None:
        """Ends the call. It is complete if its arguments are a JSON object."""
        if _is_object("".join(self._arguments)):
            self._end_call(is_complete=True)
        else:
            self.break_call()

    def break_call(self) -> None:
        """Ends the call as incomplete, and notes that it could not be read."""
        self.unread("call", sum(map(len, self._arguments)))
        self._end_call(is_complete=False)

    def finish(self) -> None:
        """Ends the output: an open call becomes incomplete, and white space at the end of a text is emitted."""
        self._leave_call()
        self._text.finish(self._segments)

    def _leave_call(self) -> None:
        """Ends a call that is still open as incomplete, because something else follows."""
        if self.is_in_call:
            self.break_call()

    def _begin_run(self, run: TextRun, other: TextRun) -> None:
        self._leave_call()
        self.is_in_reasoning = run is self._reasoning
        other.end(self._segments)
        self._run = run

    def _end_runs(self) -> None:
        self._run = None
        self._text.end(self._segments)
        self._reasoning.end(self._segments)

    def _end_call(self, *, is_complete: bool) -> None:
        self.is_in_call = False
        self._arguments.clear()
        self._segments.append(CallEnd(is_complete))


def _is_object(text: str) -> bool:
    """Whether a text is a JSON object. Numbers may have any length; NaN and Infinity are not JSON."""
    try:
        return isinstance(json.loads(text, parse_int=str, parse_constant=_reject), dict)
    except (ValueError, RecursionError):
        return False


def _reject(name: str) -> NoReturn:
    raise ValueError(name)
