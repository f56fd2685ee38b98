"""The segments that the parser returns, in order, and the rule for white space that only separates them.

    text, reasoning      as it was written, but for outer white space next to reasoning and calls
    a call               its name, its arguments piece by piece, its end
    dropped              a call that could not be read, and of which nothing was told

Where log probabilities are wanted, texts come with the tokens that wrote them, as `ScoredText`.

Arguments are the model's own text, never rewritten: joined, they are the call's `arguments`.
"""

from __future__ import annotations

import json
from typing import NoReturn

from antiphon_core.values import value


@value
class Text:
    text: str


@value
class Reasoning:
    text: str


@value
class CallBegin:
    """A call of the tool `name`, as the model spelt it. `model_id` is the id that the model gave it, if any did."""

    name: str
    model_id: str | None = None


@value
class Arguments:
    text: str


@value
class CallEnd:
    """`is_complete`: the arguments are the whole of a JSON object. Otherwise the model stopped, or lost its way."""

    is_complete: bool


@value
class Break:
    """The run of text or reasoning ends here, though the next may be of the same kind. `phase` is what the model calls
    the next text, where its format has words for that."""

    phase: str | None = None


@value
class Dropped:
    """Text that began as a call, was none, and cannot be shown: to be counted and logged, never sent to a client."""

    text: str


@value
class Candidate:
    """A token that might have been chosen: the bytes that it writes, and how likely it was."""

    written: bytes
    logprob: float


@value
class ScoredToken:
    """A token that was chosen, and the likeliest ones at its place, likeliest first."""

    written: bytes
    logprob: float
    top: tuple[Candidate, ...] = ()


@value
class ScoredText:
    """A text, and the tokens that begin in it."""

    text: str
    tokens: tuple[ScoredToken, ...]


Segment = Text | Reasoning | CallBegin | Arguments | CallEnd | Break | Dropped | ScoredText


class TextRun:
    """Text of one kind, with the white space at its end held back until something follows."""

    def __init__(self, segment: type[Text | Reasoning | Dropped], *, keeps_leading: bool) -> None:
        self._segment = segment
        self._held: list[str] = []
        self._begun = keeps_leading

    def add(self, text: str, to: list[Segment]) -> None:
        body = text.rstrip()
        if not body:
            self._held.append(text)
            return
        whole = "".join((*self._held, body)) if self._held else body
        self._held = [text[len(body) :]] if len(body) < len(text) else []
        to.append(self._segment(whole if self._begun else whole.lstrip()))
        self._begun = True

    def end(self) -> None:
        """Something else follows: what was held back only separated."""
        self._held, self._begun = [], False

    def finish(self, to: list[Segment]) -> None:
        """Nothing follows: white space at the end of an answer is part of it."""
        held = "".join(self._held)
        if self._begun and held:
            to.append(self._segment(held))
        self.end()


class Output:
    """Collects segments until they are taken."""

    def __init__(self) -> None:
        self._segments: list[Segment] = []
        self._text = TextRun(Text, keeps_leading=True)
        self._reasoning = TextRun(Reasoning, keeps_leading=False)
        self._dropped = TextRun(Dropped, keeps_leading=False)
        self._run: TextRun | None = None
        """The run that was written last, if nothing came behind it."""
        self._arguments: list[str] = []
        self.in_call = False
        self.in_reasoning = False

    def take(self) -> list[Segment]:
        segments, self._segments = self._segments, []
        return segments

    def text(self, text: str) -> None:
        if self._run is not self._text:
            self._begin_run(self._text, self._reasoning)
        self._text.add(text, self._segments)

    def reasoning(self, text: str) -> None:
        if self._run is not self._reasoning:
            self._begin_run(self._reasoning, self._text)
        self._reasoning.add(text, self._segments)

    def separate(self, phase: str | None = None) -> None:
        """The next run is another one, also when it is of the same kind."""
        self._leave_call()
        self._end_runs()
        self._segments.append(Break(phase))

    def drop(self, text: str) -> None:
        """Here stood what is no text, and cannot be read as a call."""
        self._run = None
        self._dropped.add(text, self._segments)

    def begin_call(self, name: str, model_id: str | None = None) -> None:
        self._leave_call()
        self._end_runs()
        self.in_call, self.in_reasoning = True, False
        self._segments.append(CallBegin(name, model_id))

    def arguments(self, text: str) -> None:
        if text:
            self._arguments.append(text)
            self._segments.append(Arguments(text))

    @property
    def has_arguments(self) -> bool:
        """Whether any were told of the call that we are in."""
        return bool(self._arguments)

    def end_call(self) -> None:
        """The call ends here; it is complete if its arguments are."""
        self._end_call(is_complete=_is_object("".join(self._arguments)))

    def break_call(self) -> None:
        """The call ends here, in the midst of it."""
        self._end_call(is_complete=False)

    def finish(self) -> None:
        """The end of everything that the model wrote."""
        self._leave_call()
        self._text.finish(self._segments)

    def _leave_call(self) -> None:
        """A call that something else follows before its end was broken off."""
        if self.in_call:
            self.break_call()

    def _begin_run(self, run: TextRun, other: TextRun) -> None:
        self._leave_call()
        self.in_reasoning = run is self._reasoning
        other.end()
        self._dropped.end()
        self._run = run

    def _end_runs(self) -> None:
        self._run = None
        self._text.end()
        self._reasoning.end()
        self._dropped.end()

    def _end_call(self, *, is_complete: bool) -> None:
        self.in_call = False
        self._arguments.clear()
        self._segments.append(CallEnd(is_complete))


def _is_object(text: str) -> bool:
    """Whether a text is a JSON object. Numbers may be as long as they like, but NaN and Infinity are none."""
    try:
        return isinstance(json.loads(text, parse_int=str, parse_constant=_refuse), dict)
    except (ValueError, RecursionError):
        return False


def _refuse(name: str) -> NoReturn:
    raise ValueError(name)
