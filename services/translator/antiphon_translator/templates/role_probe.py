"""Detects which roles a chat template reads, by rendering small conversations when the model is loaded.

A template has a capability if it accepts the conversation and writes all of its texts, in their order. Without this
check a template could silently drop a message: the model would not read it, and the client would get a 200.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object
from antiphon_translator.conversation import Call, Conversation, Message
from antiphon_translator.templates import distortions
from antiphon_translator.templates.roles import Roles

_TOOL: Object = {
    "type": "function",
    "function": {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {}}},
}
_SYSTEM, _MORE_SYSTEM = Message("system", ("alpha1",)), Message("system", ("bravo2",))
_DEVELOPER, _UNKNOWN = Message("developer", ("bravo2",)), Message("nobody", ("bravo2",))
_ASK, _ASK_MORE, _LAST = Message("user", ("charlie3",)), Message("user", ("delta4",)), Message("user", ("golf7",))
_ANSWER, _ANSWER_MORE = Message("assistant", ("echo5",)), Message("assistant", ("foxtrot6",))
_LONG, _SHORT = "call_0123456789abcdef01234567", "abcdef123"


class Render(Protocol):
    def __call__(self, conversation: Conversation, *, now_s: int) -> str: ...


def of(render: Render) -> Roles:
    """Returns the capabilities of the template behind `render`."""
    if not _shows(render, _ASK):
        return Roles()  # with a template that rejects a single user message nothing can be detected
    has_developer = _knows_developer(render)
    others = (_MORE_SYSTEM, _DEVELOPER) if has_developer else (_MORE_SYSTEM,)
    pairs = [(_SYSTEM, each) for each in others] + [(each, _SYSTEM) for each in others]
    call_id = next((each for each in (_LONG, _SHORT) if _shows(render, *_call_round(each))), "")
    return Roles(
        system=_shows(render, _SYSTEM, _ASK),
        developer=has_developer,
        several_system=all(_shows(render, *pair, _ASK) for pair in pairs),
        late_system=all(_shows_late(render, other) for other in others),
        user_runs=_shows(render, _ASK, _ASK_MORE) and _shows(render, _ASK, _ANSWER, _ASK_MORE, _LAST),
        assistant_runs=_shows(render, _ASK, _ANSWER, _ANSWER_MORE, _LAST),
        text_with_calls=bool(call_id)
        and _ANSWER.text in (_try_render(render, *_call_round(call_id, _ANSWER.text)) or ""),
        tool=bool(call_id),
        user_after_tool=_shows(render, *_call_round(call_id or _LONG), _LAST),
        empty=all(_shows(render, *chat) for chat in _with_empty_messages()),
        long_call_ids=call_id != _SHORT,
    )


def rejection_of_results(render: Render) -> str | None:
    """The reason for which the template rejects the result of a call; None if it rejects none. A template that calls
    `list.append`, which the sandbox refuses, would otherwise look like one that was made without tools."""
    try:
        render(Conversation(_call_round(_SHORT), (_TOOL,)), now_s=0)
    except InvalidRequest as error:
        return error.message
    return None


def _knows_developer(render: Render) -> bool:
    """Whether the template knows the role developer. One that writes the name of any role does not."""
    if not _shows(render, _DEVELOPER, _ASK):
        return False
    known, unknown = (_try_render(render, each, _ASK) or "" for each in (_DEVELOPER, _UNKNOWN))
    return known != unknown.replace(_UNKNOWN.role, _DEVELOPER.role)


def _shows_late(render: Render, late: Message) -> bool:
    return all(
        _shows(render, *chat)
        for chat in (
            (_ASK, _ANSWER, late, _LAST),
            (_SYSTEM, _ASK, _ANSWER, late, _LAST),
            (_SYSTEM, _ASK, late),
        )
    )


def _call_round(call_id: str, *texts: str) -> tuple[Message, ...]:
    calling = Message("assistant", texts, calls=(Call(call_id, "f", {}),))
    return _ASK, calling, Message("tool", ("hotel8",), call_id=call_id, name="f")


def _with_empty_messages() -> Sequence[tuple[Message, ...]]:
    return (_ASK, _without_text(_ANSWER), _LAST), (_without_text(_ASK), _ANSWER, _LAST)


def _without_text(message: Message) -> Message:
    return message._replace(parts=("",))


def _shows(render: Render, *messages: Message) -> bool:
    """Whether the prompt has all texts of a conversation, in their order and as they are."""
    prompt = _try_render(render, *messages)
    return prompt is not None and distortions.of(prompt, [(message.text,) for message in messages]) is None


def _try_render(render: Render, *messages: Message) -> str | None:
    """The prompt; None if the template rejects the conversation."""
    tools = (_TOOL,) if any(message.calls for message in messages) else ()
    try:
        return render(Conversation(messages, tools), now_s=0)
    except InvalidRequest:
        return None
