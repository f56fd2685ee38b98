"""Checks what a chat template shows of each kind of message, as a model would read it.

Each case is a small conversation of single words, rewritten for the template as every conversation is (roles.py). A
template *distorts* a case if a word is missing, or is printed in another form. It may also reject the case: then such
requests get a 400. Without a role for system messages, they become a part of the user's message.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object
from antiphon_translator.conversation import Call, Conversation, Message
from antiphon_translator.templates import distortions, role_probe
from antiphon_translator.templates.jinja import JinjaTemplate

_SCHEMA: Object = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "exact": {"type": "boolean"}, "days": {"type": ["integer", "null"]}},
}
_INPUT: Object = {"type": "object", "properties": {"input": {"type": "string"}}}
"""A custom tool is shown to the model as a function with one text."""
_TOOLS: tuple[Object, ...] = (
    {"type": "function", "function": {"name": "get_weather", "description": "Tells it.", "parameters": _SCHEMA}},
    {"type": "function", "function": {"name": "exec", "description": "Runs it.", "parameters": _INPUT}},
)
_ASK, _MORE = Message("user", ("alpha",)), Message("user", ("bravo",))
_CALL, _OTHER = Call("abcdef123", "get_weather", {"city": "Rome"}), Call("abcdef124", "get_weather", {"city": "Oslo"})
_BARE = Call("abcdef123", "get_weather", {})
_CUSTOM = Call("abcdef123", "exec", {"input": "kilo"})
_TYPED = Call("abcdef123", "get_weather", {"city": "Rome", "exact": True, "days": None})
_RESULT = Message("tool", ("hotel",), call_id=_CALL.id, name=_CALL.name)
_RESULT_IN_PARTS = _RESULT._replace(parts=("hotel", "juliett"))
_OTHER_RESULT = Message("tool", ("india",), call_id=_OTHER.id, name=_OTHER.name)


@dataclass(frozen=True, slots=True)
class Finding:
    """A case that the template does not show as it was sent. `is_distorted`: the model reads something else."""

    case: str
    problem: str
    is_distorted: bool


def _calling(*calls: Call, text: str = "") -> Message:
    return Message("assistant", (text,) if text else (), calls=calls)


_CASES: Mapping[str, tuple[Message, ...]] = {
    "a system message": (Message("system", ("charlie",)), _ASK),
    "a developer message": (Message("developer", ("delta",)), _ASK),
    "the text of an assistant": (_ASK, Message("assistant", ("echo",)), _MORE),
    "the result of a call": (_ASK, _calling(_CALL), _RESULT),
    "a call behind a text": (_ASK, _calling(_CALL, text="foxtrot"), _RESULT),
    "two calls at once": (_ASK, _calling(_CALL, _OTHER), _RESULT, _OTHER_RESULT),
    "a result in parts": (_ASK, _calling(_CALL), _RESULT_IN_PARTS),
    "a call of a custom tool": (_ASK, _calling(_CUSTOM), _RESULT),
    "a call without arguments": (_ASK, _calling(_BARE), _RESULT),
    "a call with true and null": (_ASK, _calling(_TYPED), _RESULT),
    "a question after a tool loop": (_ASK, _calling(_CALL), _RESULT, Message("assistant", ("golf",)), _MORE),
}


def findings(template: JinjaTemplate) -> Iterator[Finding]:
    """The cases that the template distorts or rejects."""
    roles = role_probe.of(template.render)
    cause = None if roles.tool else role_probe.rejection_of_results(template.render)
    if not roles.system:
        yield Finding("a system message", "it becomes a part of the user's message", is_distorted=False)
    for case, messages in _CASES.items():
        tools = _TOOLS if any(message.calls for message in messages) else ()
        try:
            prompt = template.render(roles.adapt(Conversation(messages, tools)), now_s=0)
        except InvalidRequest as error:
            problem = f"{error.message} {cause}" if cause and tools else error.message
            yield Finding(case, problem, is_distorted=False)
            continue
        if (read := _problem(prompt, messages, template)) is not None:
            yield Finding(case, f"the model reads {read}", is_distorted=True)


def _problem(prompt: str, messages: tuple[Message, ...], template: JinjaTemplate) -> str | None:
    """The difference between what the messages say and what the prompt shows."""
    words = [word for message in messages for word in (*message.parts, *_values(message)) if isinstance(word, str)]
    # The words are in no order: Gemma 4 writes a result before the text that came with its call.
    if (distortion := distortions.of(prompt, [words])) is not None:
        return distortion
    python = distortions.python_words(prompt, template.literals)
    return f"Python's {' and '.join(python)}" if python else None


def _values(message: Message) -> Iterator[str]:
    for call in message.calls:
        yield call.name
        yield from (value for value in call.arguments.values() if isinstance(value, str))
