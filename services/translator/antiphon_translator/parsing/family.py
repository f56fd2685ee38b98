"""The table of facts about one model family. It holds no code that runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from typing import Any, Protocol

from antiphon_translator.parsing.alphabet import is_token
from antiphon_translator.parsing.cursor import Reader
from antiphon_translator.parsing.markers import Markers
from antiphon_translator.parsing.reading import CallSyntax, Reading

_PLAIN_TAG = re.compile(r"</\w+>")


class Grammar(Protocol):
    """Reads everything that a model writes, for families whose output has a structure of its own."""

    def read(self, reading: Reading, prompt_tail: str) -> Reader[None]: ...


class Bare(Protocol):
    """Reads calls that begin without any marker, where an answer begins."""

    def read(self, reading: Reading) -> Reader[None]: ...


@dataclass(frozen=True, slots=True)
class PromptStyle:
    """The parts of a family's prompts that its chat template does not write. `writer` names the code that writes
    prompts in place of a chat template (templates/)."""

    writer: str = ""


@dataclass(frozen=True)
class Family:
    """`reasoning` are pairs of an opener and its closer. `ignored` are markers that stand for nothing.

    `call_ends_reasoning`: a call within reasoning is one, and ends it; elsewhere it is a draft.
    """

    name: str
    reasoning: tuple[tuple[str, str], ...] = ()
    calls: tuple[CallSyntax, ...] = ()
    ignored: tuple[str, ...] = ()
    call_ends_reasoning: bool = False
    carried: tuple[str, ...] = ()
    """Endings of a prompt that belong to the output: each is read as if the model had written it."""
    forced: str = ""
    """The beginning of a call of the tool NAME, up to its arguments. At the end of a prompt it makes the model write
    that call."""
    forced_any: str = ""
    """The beginning of a call of any tool, used like `forced`."""
    forced_json: bool = False
    """Whether the arguments behind `forced` are JSON."""
    forced_object: str = ""
    """The beginning of a call that goes on with a JSON object of `name` and `arguments`."""
    bare: Bare | None = None
    grammar: Grammar | None = None
    prompt: PromptStyle = PromptStyle()

    def begins_in_reasoning(self, prompt_tail: str) -> bool:
        """Whether the last opener in the prompt's tail is not closed."""
        opened = max((prompt_tail.rfind(each.rstrip()) for each in self.reasoning_open), default=-1)
        closed = max((prompt_tail.rfind(each.strip()) for each in self.reasoning_close), default=-1)
        return opened > closed

    def beginning_of_call(self, name: str | None, prompt_tail: str) -> str:
        """The end of a prompt that makes a model call this tool, or any tool; empty when the family has none. Reasoning
        that the prompt opened is closed."""
        beginning = self.forced.replace("NAME", name) if name is not None else self.forced_any
        return self.behind_reasoning(beginning, prompt_tail)

    def behind_reasoning(self, beginning: str, prompt_tail: str) -> str:
        """The beginning of an answer, behind the end of the reasoning that the prompt opened."""
        if not beginning or not self.begins_in_reasoning(prompt_tail):
            return beginning
        return f"\n{self.reasoning[0][1]}\n\n{beginning}"

    def answers_at_once(self, prompt_tail: str) -> bool:
        """Whether the prompt has ended the reasoning already."""
        return self.grammar is None and prompt_tail.rstrip().endswith(
            tuple(closer.strip() for closer in self.reasoning_close)
        )

    @cached_property
    def reasoning_open(self) -> frozenset[str]:
        return frozenset(opener for opener, _ in self.reasoning)

    @cached_property
    def reasoning_close(self) -> frozenset[str]:
        return frozenset(closer for _, closer in self.reasoning)

    @cached_property
    def openers(self) -> dict[str, tuple[CallSyntax, ...]]:
        """Openers of calls and of sections, and how such calls may be written."""
        literals = dict.fromkeys(each for call in self.calls for each in (*call.section_open, *call.open))
        return {
            literal: tuple(call for call in self.calls if literal in call.section_open or literal in call.open)
            for literal in literals
        }

    @cached_property
    def in_text(self) -> Markers:
        return Markers((*self._boundaries, *self.stray, *self.openers))

    @cached_property
    def in_reasoning(self) -> Markers:
        return Markers((*self._boundaries, *(self.openers if self.call_ends_reasoning else ())))

    @cached_property
    def without_calls(self) -> Markers:
        """Where no tools were offered, calls are text."""
        return Markers(self._boundaries)

    @cached_property
    def ends_of_noise(self) -> Markers:
        """Literals that end the text between a section's beginning and its next call."""
        closers = (closer for call in self.calls for closer in call.section_close)
        return Markers((*self._boundaries, *self.openers, *closers))

    @cached_property
    def ends_of_calls(self) -> Markers:
        """Literals that end a call that cannot be read on."""
        closers = (closer for call in self.calls for closer in (*call.close, *call.section_close))
        return Markers((*self._boundaries, *self.openers, *closers))

    def ends_of_section(self, opener: str) -> Markers:
        """Literals that end the section that an opener began, or the call: the calls in a section do not."""
        syntaxes = self.openers[opener]
        inner = {each for call in syntaxes if opener in call.section_open for each in call.open}
        closers = (each for call in syntaxes for each in (*call.close, *call.section_close))
        return Markers((*self._boundaries, *(each for each in self.openers if each not in inner), *closers))

    @cached_property
    def stray(self) -> tuple[str, ...]:
        """Closers of calls and sections: a closer with nothing to close stands for nothing. A plain tag in a
        section might as well be a part of any other text."""
        sections = (each for call in self.calls for each in call.section_close)
        closers = (
            each
            for call in self.calls
            for each in call.close
            if is_token(each) or not (call.section_close and _PLAIN_TAG.fullmatch(each))
        )
        return tuple(each for each in (*sections, *closers) if is_token(each) or each[0] in "<[]")

    @cached_property
    def closers(self) -> frozenset[str]:
        """Closers of something that is only there if it was begun."""
        return self.reasoning_close.union(self.stray)

    @cached_property
    def _boundaries(self) -> tuple[str, ...]:
        return (*self.reasoning_open, *self.reasoning_close, *self.ignored)

    def markers(self) -> Iterator[str]:
        """Every literal of what is read."""
        return _strings(replace(self, prompt=PromptStyle()))

    def translated(self, encode: Callable[[str], str]) -> Family:
        """Copies the table with its literals in another alphabet."""
        table: Family = _translated(self, encode)
        return replace(table, name=self.name, prompt=self.prompt)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple):
        for each in value:
            yield from _strings(each)
    elif is_dataclass(value):
        for member in fields(value):
            yield from _strings(getattr(value, member.name))


def _translated(value: Any, encode: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return encode(value)
    if isinstance(value, tuple):
        return tuple(_translated(each, encode) for each in value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{each.name: _translated(getattr(value, each.name), encode) for each in fields(value)})
    return value
