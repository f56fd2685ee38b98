"""The table of one model family: how it writes reasoning and calls."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from typing import Any, Protocol

from antiphon_translator.parsing.alphabet import PLACEHOLDER, PLAIN, is_plain, is_token, plain
from antiphon_translator.parsing.cursor import Reader
from antiphon_translator.parsing.markers import Markers
from antiphon_translator.parsing.markup import Markup
from antiphon_translator.parsing.reading import CallSyntax, Reading

_PLAIN_TAG = re.compile(r"</\w+>")


class Grammar(Protocol):
    """Reads the whole output of a family whose messages have headers or tags of their own."""

    def read(self, reading: Reading, prompt_tail: str) -> Reader[None]: ...


class Bare(Protocol):
    """Reads calls that no marker opens, at the beginning of an answer."""

    def read(self, reading: Reading) -> Reader[None]: ...


@dataclass(frozen=True, slots=True)
class PromptStyle:
    """The parts of a family's prompts that its chat template does not write. `writer` names the code that writes
    prompts in place of a chat template (templates/). `call_id` is the form of the ids of calls in prompts, where the
    model was trained on one: NAME stands for the tool, INDEX for the number of the call in the conversation, from 0."""

    writer: str = ""
    call_id: str = ""


@dataclass(frozen=True)
class Family:
    """How a model family writes reasoning and calls. `reasoning` are pairs of an opener and its closer. `ignored` are
    markers that are no part of the output.

    `call_ends_reasoning`: a call within reasoning is executed, and ends the reasoning. In other families such a call is
    a part of the reasoning.

    `drafts_calls`: a call in the midst of a sentence of the reasoning is a draft, and a part of the reasoning.
    """

    name: str = plain()
    reasoning: tuple[tuple[str, str], ...] = ()
    calls: tuple[CallSyntax, ...] = ()
    ignored: tuple[str, ...] = ()
    call_ends_reasoning: bool = False
    drafts_calls: bool = False
    heading: tuple[str, ...] = ()
    """Text between an opener of reasoning and the reasoning. Some servers leave it without the opener at the beginning
    of an output whose reasoning is empty."""
    carried: tuple[str, ...] = ()
    """Endings of a prompt that the parser reads as if the model had written them."""
    forced: str = plain("")
    """The beginning of a call of the tool NAME, up to its arguments. Appended to a prompt, it makes the model write
    that call."""
    forced_any: str = plain("")
    """The beginning of a call of any tool, used like `forced`."""
    forced_json: bool = False
    """Whether the model goes on behind `forced` with the arguments as JSON."""
    forced_object: str = plain("")
    """The beginning of a call up to a JSON object that has its `name` and its `arguments`."""
    bare: Bare | None = None
    grammar: Grammar | None = None
    prompt: PromptStyle = field(default_factory=PromptStyle, metadata=PLAIN)

    def begins_in_reasoning(self, prompt_tail: str) -> bool:
        """Whether the prompt ends within reasoning: its last opener has no closer behind it."""
        opened = max((prompt_tail.rfind(each.rstrip()) for each in self.reasoning_open), default=-1)
        closed = max((prompt_tail.rfind(each.strip()) for each in self.reasoning_close), default=-1)
        return opened > closed

    def beginning_of_call(self, name: str | None, prompt_tail: str) -> str:
        """The text that, appended to a prompt, makes a model call this tool, or any tool if `name` is None. Empty if
        the table has no such text. It first closes reasoning that the prompt opened."""
        beginning = self.forced.replace("NAME", name) if name is not None else self.forced_any
        return self.behind_reasoning(beginning, prompt_tail)

    def behind_reasoning(self, beginning: str, prompt_tail: str) -> str:
        """`beginning`, with the closer of the reasoning before it if the prompt opened reasoning."""
        if not beginning or not self.begins_in_reasoning(prompt_tail):
            return beginning
        return f"\n{self.reasoning[0][1]}\n\n{beginning}"

    def answers_at_once(self, prompt_tail: str) -> bool:
        """Whether the prompt ends with the closer of reasoning, so that the model answers without reasoning."""
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
    def empty_reasoning(self) -> tuple[str, ...]:
        """Empty reasoning without its opener."""
        return tuple(f"{heading}{closer}" for heading in self.heading for closer in self.reasoning_close)

    @cached_property
    def openers(self) -> dict[str, tuple[CallSyntax, ...]]:
        """The openers of calls and of sections, each with the syntaxes that it may begin."""
        literals = dict.fromkeys(each for call in self.calls for each in (*call.section_open, *call.open))
        return {
            literal: tuple(call for call in self.calls if literal in call.section_open or literal in call.open)
            for literal in literals
        }

    @cached_property
    def in_text(self) -> Markers:
        """The literals that end a run of text, if tools were offered."""
        return Markers((*self._boundaries, *self.stray, *self.openers))

    @cached_property
    def in_reasoning(self) -> Markers:
        """The literals that end a run of reasoning, if tools were offered."""
        return Markers((*self._boundaries, *(self.openers if self.call_ends_reasoning else ())))

    @cached_property
    def without_calls(self) -> Markers:
        """The literals that end a run of text or reasoning, if no tools were offered: calls are text then."""
        return Markers(self._boundaries)

    @cached_property
    def ends_of_noise(self) -> Markers:
        """The literals that end the noise in a section: text between the section's opener, its calls and its closer."""
        closers = (closer for call in self.calls for closer in call.section_close)
        return Markers((*self._boundaries, *self.openers, *closers))

    @cached_property
    def ends_of_calls(self) -> Markers:
        """The literals at which reading goes on after a call that cannot be read."""
        closers = (closer for call in self.calls for closer in (*call.close, *call.section_close))
        return Markers((*self._boundaries, *self.openers, *closers))

    @cached_property
    def ends_of_sections(self) -> Mapping[str, Markers]:
        """The literals that end the section or the call that an opener began, by the opener. Openers of calls in the
        section are not among them."""
        return {opener: self._ends_of_section(opener, syntaxes) for opener, syntaxes in self.openers.items()}

    def _ends_of_section(self, opener: str, syntaxes: Sequence[CallSyntax]) -> Markers:
        inner = {each for call in syntaxes if opener in call.section_open for each in call.open}
        closers = (each for call in syntaxes for each in (*call.close, *call.section_close))
        return Markers((*self._boundaries, *(each for each in self.openers if each not in inner), *closers))

    @cached_property
    def stray(self) -> tuple[str, ...]:
        """The closers of calls and sections that are removed from text, where they close nothing. A plain tag such as
        `</invoke>`, which closes a call in a section, stays text: any other text may have it."""
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
        """The closers of reasoning, calls and sections. Where an opener was shown as text, its closer is text, too."""
        return self.reasoning_close.union(self.stray)

    @cached_property
    def markup(self) -> Markup:
        """The markup of calls, without which a call that cannot be read is shown."""
        sections = (each for call in self.calls for each in call.section_close)
        closers = (each for call in self.calls for each in call.close)
        grammar = filter(_is_markup, _literals(self.grammar))
        around = (*self._boundaries, *self.openers, *closers, *sections, *grammar)
        return Markup(around, filter(_is_markup, self.markers()))

    @cached_property
    def _boundaries(self) -> tuple[str, ...]:
        return (*self.reasoning_open, *self.reasoning_close, *self.ignored)

    def markers(self) -> Iterator[str]:
        """All literals of the table that are searched for in an output."""
        return (literal for literal in _literals(self) if literal)

    def encode_literals(self, encode: Callable[[str], str]) -> Family:
        """A copy of the table whose literals went through `encode` (alphabet.py)."""
        table: Family = _translate(self, encode)
        return table


def _is_markup(literal: str) -> bool:
    """Whether a literal is markup, rather than a key of JSON or a word."""
    return bool(literal) and not literal.isidentifier()


def _literals(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield from value.split(PLACEHOLDER)
    elif isinstance(value, tuple):
        for each in value:
            yield from _literals(each)
    elif is_dataclass(value):
        for member in _search_fields(value):
            yield from _literals(getattr(value, member.name))


def _translate(value: Any, encode: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return PLACEHOLDER.join(map(encode, value.split(PLACEHOLDER)))
    if isinstance(value, tuple):
        return tuple(_translate(each, encode) for each in value)
    if is_dataclass(value) and not isinstance(value, type):
        members = {each.name: getattr(value, each.name) for each in _search_fields(value)}
        return replace(value, **{name: _translate(member, encode) for name, member in members.items()})
    return value


def _search_fields(table: Any) -> Iterator[Field[Any]]:
    """The members of a table that have literals to search for."""
    return (member for member in fields(table) if not is_plain(member))
