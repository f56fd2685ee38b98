"""Finds the form in which a chat template reads the content of messages: one text, or a list of parts.

Templates differ by role: many loop over the parts of a user's message, for its images, and print the content of a
tool's result as it is. So the template is rendered with each kind of message in each form. A message whose parts are
all texts is passed as one text, unless only the list shows it. A message with an image is passed as a list where the
template reads lists of that kind of message.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object
from antiphon_translator.conversation import Call, Conversation, Message
from antiphon_translator.templates import distortions


class ContentForm(Enum):
    TEXT = "text"
    PARTS = "parts"
    PART = "part"
    """A list that is never empty: some templates read its first part without checking that there is one."""


@dataclass(frozen=True, slots=True)
class ContentForms:
    """The form of each kind of message, and the kinds that may be a list of parts. The kinds are the roles and, for an
    assistant's message that has calls and no text, `calling`."""

    of_texts: Mapping[str, ContentForm] = field(default_factory=dict)
    with_parts: frozenset[str] = frozenset()

    def of(self, message: Message) -> ContentForm:
        kind = "calling" if message.calls and not message.parts else message.role
        if kind in self.with_parts and message.images:
            return ContentForm.PARTS
        return self.of_texts.get(kind, ContentForm.TEXT)


class RenderWith(Protocol):
    def __call__(self, conversation: Conversation, forms: ContentForms) -> str:
        """InvalidRequest: the template rejects the conversation."""


_TOOL: Object = {
    "type": "function",
    "function": {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {}}},
}
_ASK, _LAST = Message("user", ("alpha1",)), Message("user", ("bravo2",))
_CALLING = Message("assistant", (), calls=(Call("abcdef123", "f", {}),))
_RESULT = Message("tool", ("hotel8",), call_id="abcdef123", name="f")
_CHATS: Mapping[str, tuple[Message, ...]] = {
    "user": (_ASK,),
    "system": (Message("system", ("charlie3",)), _ASK),
    "developer": (Message("developer", ("delta4",)), _ASK),
    "assistant": (_ASK, Message("assistant", ("echo5",)), _LAST),
    "calling": (_ASK, _CALLING),
    "tool": (_ASK, _CALLING, _RESULT),
}
"""A conversation to try each kind of message. The forms of the kinds before it are known by then."""
_LISTS = (ContentForm.PARTS, ContentForm.PART)


def of(render: RenderWith) -> ContentForms:
    """The forms that the template behind `render` reads. A kind that it reads in no form is passed as text."""
    found: dict[str, ContentForm] = {}
    with_parts = set()
    for kind in _CHATS:
        readable = [form for form in ContentForm if _reads(render, kind, {**found, kind: form})]
        found[kind] = readable[0] if readable else ContentForm.TEXT
        if any(form in readable for form in _LISTS):
            with_parts.add(kind)
    return ContentForms(found, frozenset(with_parts))


def _reads(render: RenderWith, kind: str, forms: Mapping[str, ContentForm]) -> bool:
    chat = _CHATS[kind]
    tools = (_TOOL,) if any(message.calls for message in chat) else ()
    try:
        prompt = render(Conversation(chat, tools), ContentForms(forms))
    except InvalidRequest:
        return False
    return distortions.of(prompt, [(message.text,) for message in chat]) is None
