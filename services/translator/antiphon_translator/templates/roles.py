"""Rewrites a conversation into the roles that a model's chat template reads (docs/adr/0078-roles-by-capability.md).

`Roles` lists what the template reads. `Roles.adapt` is the one normalisation for all engines, whether the prompt is
rendered here or by a server of chat completions. Its rules, in this order:

* A developer message becomes a system message for a template that does not know the role.
* Adjacent system messages become one, and those before the first assistant message join the opening one, where the
  template reads only one.
* After the first assistant message, no message moves across an assistant or tool message. An instruction there is
  marked (`<developer_message>...</developer_message>`) and becomes part of the adjacent user message: the next one,
  else the one before, else a user message of its own.
* Adjacent user messages become one, and so do assistant messages, where the template requires that they alternate.
* The text before a call becomes a message of its own where the template would leave it out and reads adjacent messages
  of the assistant.
* An empty assistant message is left out where the template rejects it. Ids of calls get the form that it requires.

A message that no rule can make readable raises InvalidRequest: without it the model would answer another conversation.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, reduce
from itertools import groupby

from antiphon_core.errors import InvalidRequest
from antiphon_translator.conversation import Conversation, Message

SHORT_ID_CHARS = 9
INSTRUCTIONS = ("system", "developer")
_RUN_BREAK = "\n\n"


@dataclass(frozen=True, slots=True)
class Roles:
    """The roles that a template reads. The defaults are for a chat server whose template is unknown: nearly all
    templates read these."""

    system: bool = True
    """An opening system message."""
    developer: bool = False
    """An opening developer message, as a role that the template knows."""
    several_system: bool = False
    """Several instructions at the beginning, each as a message of its own."""
    late_system: bool = False
    """An instruction after the first assistant message, in its place."""
    user_runs: bool = False
    """Two adjacent user messages."""
    assistant_runs: bool = False
    """Two adjacent assistant messages."""
    text_with_calls: bool = True
    """The text of a message that has calls, too."""
    tool: bool = True
    """The result of a call."""
    user_after_tool: bool = True
    """A user message directly after the result of a call."""
    empty: bool = True
    """A message without text."""
    long_call_ids: bool = False
    """Ids of calls of any length. Mistral's templates require nine letters and digits."""

    @classmethod
    def of_names(cls, names: Iterable[str]) -> Roles:
        """The roles with the capabilities of these names (CAPABILITIES), and no others."""
        wanted = set(names)
        return cls(**{name: name in wanted for name in CAPABILITIES})

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the capabilities that the template has."""
        return tuple(name for name in CAPABILITIES if getattr(self, name))

    def adapt(self, conversation: Conversation) -> Conversation:
        """Rewrites a conversation so that the template reads all of it; the same object where nothing has to change.

        InvalidRequest: no rule makes a message readable for the template."""
        if _unread(self).search("".join(conversation.each(_letter))) is None:
            return conversation
        adapted = self._without_runs(self._place(conversation.messages))
        if not adapted:
            raise _unreadable("This model's chat template reads no message without text, and the input has no other.")
        self._check_tools(adapted)
        shown = conversation.with_messages(self._with_call_ids(tuple(self._with_texts_apart(adapted))))
        # An empty message that the model was to continue may be gone: the model must not continue the user's.
        return replace(shown, continues_last=shown.continues_last and adapted[-1].role == "assistant")

    # ---- instructions ----

    def _place(self, messages: Sequence[Message]) -> list[Message]:
        """The messages, with every instruction in a place where the template reads it."""
        opening: list[Message] = []
        rest: list[Message] = []
        has_spoken = False
        for message in messages:
            has_spoken = has_spoken or message.role == "assistant"
            is_early = not rest or not (has_spoken or self.late_system)
            if message.role in INSTRUCTIONS and self.system and is_early:
                opening.append(self._map_role(message))
            else:
                rest.append(message)
        first = self._join(opening)
        return [*first, *(self._joined_later(rest) if self.late_system and self.system else fold_instructions(rest))]

    def _map_role(self, message: Message) -> Message:
        is_unknown = message.role == "developer" and not self.developer
        return message._replace(role="system") if is_unknown else message

    def _join(self, messages: Iterable[Message]) -> list[Message]:
        """Joins adjacent instructions: those of one role, or all of them for a template that reads a single one."""
        joined: list[Message] = []
        for message in messages:
            if joined and (joined[-1].role == message.role or not self.several_system):
                joined[-1] = Message(joined[-1].role, (_RUN_BREAK.join((joined[-1].text, message.text)),))
            else:
                joined.append(message)
        return joined

    def _joined_later(self, messages: Iterable[Message]) -> Iterator[Message]:
        """Joins adjacent instructions in their place among the other messages."""
        for is_instruction, run in groupby(messages, key=lambda message: message.role in INSTRUCTIONS):
            each = list(run)
            yield from self._join(map(self._map_role, each)) if is_instruction else each

    # ---- runs, empty messages, tools ----

    def _without_runs(self, messages: Sequence[Message]) -> list[Message]:
        """Joins adjacent messages of one role, and leaves out empty ones, where the template requires it."""
        alternating: list[Message] = []
        for message in messages:
            if not self.empty and _is_empty(message):
                if message.role == "user":
                    raise _unreadable("This model's chat template reads no user message without text.")
                continue
            before = alternating[-1] if alternating else None
            if before is not None and self._is_run(before, message):
                alternating[-1] = _merge(before, message)
            else:
                alternating.append(message)
        return alternating

    def _with_texts_apart(self, messages: Iterable[Message]) -> Iterator[Message]:
        """Makes two messages of one with text and calls, if only that shows the text."""
        for message in messages:
            if message.calls and message.parts and self.assistant_runs and not self.text_with_calls:
                yield message._replace(calls=())
                yield message._replace(parts=(), reasoning="")
            else:
                yield message

    def _is_run(self, before: Message, message: Message) -> bool:
        if before.role != message.role:
            return False
        if message.role == "user":
            return not self.user_runs
        return message.role == "assistant" and not self.assistant_runs and not before.calls

    def _check_tools(self, messages: Sequence[Message]) -> None:
        """InvalidRequest: the template cannot read the result of a call, or a user message after one."""
        before = ""
        for message in messages:
            if message.role == "tool" and not self.tool:
                raise _unreadable("This model's chat template reads no results of tool calls.")
            if message.role == "user" and before == "tool" and not self.user_after_tool:
                raise _unreadable(
                    "This model's chat template reads nothing between the result of a tool call and the model's answer."
                )
            before = message.role

    def _with_call_ids(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """Gives calls the ids that the template takes, but for those that have the form of the model already."""
        if self.long_call_ids:
            return messages
        own = {call.id for message in messages for call in message.calls if call.model_id}
        return tuple(_with_short_ids(message, own) for message in messages)


def _letter(message: Message) -> str:
    """The kind of a message as a letter: s, d, u, a, t by its role, c with calls, C with calls and text, U and A
    without text."""
    if message.calls:
        return "C" if message.parts else "c"
    letter = message.role[0]
    return letter.upper() if letter in "ua" and _is_empty(message) else letter


@cache
def _unread(roles: Roles) -> re.Pattern[str]:
    """The pattern of what a template does not read, in the letters of a conversation. A long chat is checked by one
    search, and the letters of its known messages are cached."""
    neighbours = "ss|dd" if roles.several_system else "[sd][sd]"  # models were trained on one system message
    lacking = {
        "system": "[sd]",
        "developer": "d",
        "late_system": "(?<=[^sd])[sd]",
        "user_runs": "[uU][uU]",
        "assistant_runs": "[aA][aAcC]",
        "text_with_calls": "C",
        "tool": "t",
        "user_after_tool": "t[uU]",
        "empty": "[UA]",
        "long_call_ids": "[cCt]",
    }
    return re.compile(
        "|".join([neighbours, *(letters for name, letters in lacking.items() if not getattr(roles, name))])
    )


CAPABILITIES = tuple(each.name for each in fields(Roles))


def fold_instructions(messages: Iterable[Message]) -> list[Message]:
    """Messages with every instruction marked, as part of an adjacent user message: the next one, else the one before,
    else one of its own. No instruction moves across an assistant or tool message."""
    placed: list[Message] = []
    held: list[Message] = []
    for message in messages:
        if message.role in INSTRUCTIONS:
            held.append(_mark(message))
        elif held and message.role == "user":
            placed.append(reduce(_merge, (*held, message)))
            held = []
        else:
            _settle(placed, held)
            placed.append(message)
            held = []
    _settle(placed, held)
    return placed


def _settle(placed: list[Message], held: Sequence[Message]) -> None:
    """Places instructions that no user message follows: in the user message before them, or in one of their own."""
    if held and placed and placed[-1].role == "user":
        placed[-1] = reduce(_merge, (placed[-1], *held))
    elif held:
        placed.append(reduce(_merge, held))


def _mark(message: Message) -> Message:
    """A user message with the text of an instruction, marked with its role."""
    name = f"{message.role}_message"
    return Message("user", (f"<{name}>\n{message.text}\n</{name}>",))


def _with_short_ids(message: Message, own: Collection[str]) -> Message:
    if not (message.calls or message.call_id):
        return message
    calls = tuple(call if call.id in own else replace(call, id=short_id(call.id)) for call in message.calls)
    is_short = not message.call_id or message.call_id in own
    return message._replace(calls=calls, call_id=message.call_id if is_short else short_id(message.call_id))


def short_id(call_id: str) -> str:
    """The id of a call as nine letters and digits: itself if it has that form, else a hash."""
    if len(call_id) == SHORT_ID_CHARS and call_id.isalnum() and call_id.isascii():
        return call_id
    return hashlib.sha256(call_id.encode()).hexdigest()[:SHORT_ID_CHARS]


def _merge(before: Message, message: Message) -> Message:
    """Merges two messages of one role, with a blank line between two texts."""
    parts, more = before.parts, message.parts
    if parts and more and isinstance(parts[-1], str) and isinstance(more[0], str):
        parts, more = (*parts[:-1], f"{parts[-1]}{_RUN_BREAK}{more[0]}"), more[1:]
    reasoning = "\n".join(filter(None, (before.reasoning, message.reasoning)))
    return message._replace(parts=(*parts, *more), reasoning=reasoning)


def _is_empty(message: Message) -> bool:
    return not (any(message.parts) or message.calls or message.role == "tool")


def _unreadable(message: str) -> InvalidRequest:
    return InvalidRequest(message, field="input", code="unsupported_value")
