"""Checks a model family against a chat template, with one conversation that has reasoning, a sentence and two calls.

The conversation is rendered with and without the model's turn. The difference is the raw output that the model was
trained to write. The family has to parse that output back into the reasoning, the sentence and the calls.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Protocol

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object, dumps, loads
from antiphon_translator.conversation import Call, Conversation, Message
from antiphon_translator.parsing.family import Family
from antiphon_translator.parsing.parser import OutputParser
from antiphon_translator.parsing.segments import Arguments, CallBegin, CallEnd, Reasoning, Segment, Text

PROMPT_TAIL_CHARS = 80

_SCHEMA: Object = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "Where."},
        "days": {"type": "integer", "description": "How many."},
    },
    "required": ["city", "days"],
}
_NAME = "get_weather"
_FUNCTION: Object = {"name": _NAME, "description": "Tells the weather of some days.", "parameters": _SCHEMA}
_THOUGHT, _SENTENCE = "Two cities.", "Let me look."
_ARGUMENTS: tuple[Object, ...] = ({"city": "Paris", "days": 3}, {"city": "Köln", "days": 1})
_TURN_END = re.compile(r"\s*<[^<>\s]+>\Z")  # a control token that servers cut off
_ASKED = Message("user", ("How is the weather in Paris and Köln?",))


class TurnTemplate(Protocol):
    """A renderer of conversations with and without the beginning of an answer."""

    def render(self, conversation: Conversation, *, now_s: int) -> str: ...

    def render_turns(self, conversation: Conversation) -> str: ...


@dataclass(frozen=True, slots=True)
class Trial:
    """The raw output of the model, behind a prompt that ends with `prompt_tail`."""

    prompt_tail: str
    raw: str

    @property
    def calls(self) -> int:
        """The number of calls that the template wrote."""
        return min(self.raw.count(_NAME), len(_ARGUMENTS))


@dataclass(frozen=True, slots=True)
class Reading:
    """The output as a family parses it. Texts are without outer white space."""

    reasoning: str
    text: str
    calls: tuple[tuple[str, Object | str], ...]
    """Names and arguments; an incomplete call has its arguments as text."""

    def lacks(self, trial: Trial) -> list[str]:
        """Lists the parts of the output that were not parsed, each with the part that was parsed instead."""
        missing = []
        if _SENTENCE in trial.raw and _TURN_END.sub("", self.text) != _SENTENCE:
            missing.append(f"the sentence '{_SENTENCE}', but '{self.text}'")
        if _THOUGHT in trial.raw and self.reasoning != _THOUGHT:
            missing.append(f"the thought '{_THOUGHT}', but '{self.reasoning}'")
        if self.calls != tuple((_NAME, each) for each in _ARGUMENTS[: trial.calls]):
            missing.append(f"{trial.calls} calls, but {dumps([list(each) for each in self.calls]).decode()}")
        return missing


def of(template: TurnTemplate) -> Trial:
    """Renders the conversation, with one call where the template rejects two. InvalidRequest: it rejects both."""
    prompt = template.render(_conversation(), now_s=0)
    calls = tuple(Call(f"call0000{n}", _NAME, each) for n, each in enumerate(_ARGUMENTS, 1))
    try:
        whole = template.render_turns(_conversation(Message("assistant", (_SENTENCE,), _THOUGHT, calls)))
    except InvalidRequest:
        whole = template.render_turns(_conversation(Message("assistant", (_SENTENCE,), _THOUGHT, calls[:1])))
    spoken = template.render_turns(_conversation(Message("assistant", (_SENTENCE,))))
    common = _common(prompt, whole)
    end = spoken.rpartition(_SENTENCE)[2].strip()
    return Trial(common[-PROMPT_TAIL_CHARS:], whole[len(common) :].rstrip().removesuffix(end))


def read(family: Family, trial: Trial) -> Reading:
    """Parses the output by a family."""
    parser = OutputParser(family, schemas={_NAME: _SCHEMA}, prompt_tail=trial.prompt_tail)
    return _join_texts([*parser.feed(trial.raw), *parser.finish()])


def _common(prompt: str, whole: str) -> str:
    """Returns the common beginning, without half a tag at its end."""
    length = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(prompt, whole, strict=False)))
    common = prompt[:length]
    return common if common == prompt or "<" not in common.rpartition(">")[2] else common[: common.rfind("<")]


def _conversation(*messages: Message) -> Conversation:
    return Conversation((_ASKED, *messages), ({"type": "function", "function": _FUNCTION},))


def _join_texts(segments: list[Segment]) -> Reading:
    reasoning, text, written = "", "", ""
    calls: list[tuple[str, Object | str]] = []
    name = ""
    for segment in segments:
        match segment:
            case Reasoning(part):
                reasoning += part
            case Text(part):
                text += part
            case CallBegin(name):
                written = ""
            case Arguments(part):
                written += part
            case CallEnd(is_complete):
                arguments: Any = loads(written) if is_complete else written
                calls.append((name, arguments))
    return Reading(reasoning.strip(), text.strip(), tuple(calls))
