"""Rewrites a conversation into the roles that a model's chat template reads (docs/adr/0078-roles-by-capability.md).

`Roles` says what the template makes of each role. `Roles.adapt` is the one normalisation for all engines, whether the
prompt is written here or by a server of chat completions. Its rules, in this order:

* A developer message becomes a system message for a template that does not know the role.
* System messages side by side become one, and those before the model's first words join the opening one, wherever the
  template reads one only.
* Behind the model's first words, no message moves across an assistant or tool message. An instruction there is marked
  (`<developer_message>...</developer_message>`) and becomes part of the user message beside it: the next one, else the
  one before, else a user message of its own.
* User messages in a row become one, and so do assistant messages, where the template wants them to alternate.
* An empty message is left out where the template refuses it. Ids of calls are written in the form that it wants.

A message that no rule can make readable raises InvalidRequest: dropping it would answer another conversation.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
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
    """The roles that a template reads. The defaults are for a chat server whose template nobody has seen: they use
    nothing but what every template takes."""

    system: bool = True
    """An opening system message."""
    developer: bool = False
    """An opening developer message, as something else than a role it never heard of."""
    several_system: bool = False
    """Several instructions at the beginning, each as a message of its own."""
    late_system: bool = False
    """An instruction behind the model's first words, where it was said."""
    user_runs: bool = False
    """Two user messages in a row."""
    assistant_runs: bool = False
    """Two assistant messages in a row."""
    tool: bool = True
    """The result of a call."""
    user_after_tool: bool = True
    """A user message right behind the result of a call."""
    empty: bool = True
    """A message without text."""
    long_call_ids: bool = False
    """Ids of calls of any length. Mistral's templates want nine letters and digits."""

    @classmethod
    def of_names(cls, names: Iterable[str]) -> Roles:
        """Builds the capabilities that have these names (CAPABILITIES), and no others."""
        wanted = set(names)
        return cls(**{name: name in wanted for name in CAPABILITIES})

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the capabilities that are there."""
        return tuple(name for name in CAPABILITIES if getattr(self, name))

    def adapt(self, conversation: Conversation) -> Conversation:
        """Rewrites a conversation so that the template reads all of it; the same object where nothing has to change.

        InvalidRequest: it cannot be said to this model."""
        if _unread(self).search("".join(conversation.each(_letter))) is None:
            return conversation
        adapted = self._without_runs(self._placed(conversation.messages))
        self._check_tools(adapted)
        return conversation.with_messages(tuple(map(self._with_call_ids, adapted)))

    # ---- instructions ----

    def _placed(self, messages: Sequence[Message]) -> list[Message]:
        """The messages with every instruction where the template reads it."""
        opening: list[Message] = []
        rest: list[Message] = []
        has_spoken = False
        for message in messages:
            has_spoken = has_spoken or message.role == "assistant"
            is_early = not rest or not (has_spoken or self.late_system)
            if message.role in INSTRUCTIONS and self.system and is_early:
                opening.append(self._known(message))
            else:
                rest.append(message)
        first = self._joined(opening)
        return [*first, *(self._joined_later(rest) if self.late_system and self.system else folded(rest))]

    def _known(self, message: Message) -> Message:
        is_unknown = message.role == "developer" and not self.developer
        return message._replace(role="system") if is_unknown else message

    def _joined(self, messages: Iterable[Message]) -> list[Message]:
        """Neighbouring instructions: those of one role as one, all of them for a template that reads a single one."""
        joined: list[Message] = []
        for message in messages:
            if joined and (joined[-1].role == message.role or not self.several_system):
                joined[-1] = Message(joined[-1].role, (_RUN_BREAK.join((joined[-1].text, message.text)),))
            else:
                joined.append(message)
        return joined

    def _joined_later(self, messages: Iterable[Message]) -> Iterator[Message]:
        """Messages with neighbouring instructions joined, each run where it was said."""
        for is_instruction, run in groupby(messages, key=lambda message: message.role in INSTRUCTIONS):
            each = list(run)
            yield from self._joined(map(self._known, each)) if is_instruction else each

    # ---- runs, empty messages, tools ----

    def _without_runs(self, messages: Sequence[Message]) -> list[Message]:
        """Messages that alternate as the template wants them to."""
        alternating: list[Message] = []
        for message in messages:
            if not self.empty and _is_empty(message):
                if message.role == "user":
                    raise _unsayable("This model's chat template reads no user message without text.")
                continue
            before = alternating[-1] if alternating else None
            if before is not None and self._is_run(before, message):
                alternating[-1] = _run(before, message)
            else:
                alternating.append(message)
        return alternating

    def _is_run(self, before: Message, message: Message) -> bool:
        if before.role != message.role:
            return False
        if message.role == "user":
            return not self.user_runs
        return message.role == "assistant" and not self.assistant_runs and not before.calls

    def _check_tools(self, messages: Sequence[Message]) -> None:
        """InvalidRequest: a result, or a user message behind one, that the template cannot be given."""
        before = ""
        for message in messages:
            if message.role == "tool" and not self.tool:
                raise _unsayable("This model's chat template reads no results of tool calls.")
            if message.role == "user" and before == "tool" and not self.user_after_tool:
                raise _unsayable(
                    "This model's chat template reads nothing between the result of a tool call and the model's answer."
                )
            before = message.role

    def _with_call_ids(self, message: Message) -> Message:
        if self.long_call_ids or not (message.calls or message.call_id):
            return message
        calls = tuple(replace(call, id=short_id(call.id)) for call in message.calls)
        return message._replace(calls=calls, call_id=short_id(message.call_id) if message.call_id else "")


def _letter(message: Message) -> str:
    """A letter for what counts of a message: s, d, u, a, t by its role, c for calls, U and A without text."""
    if message.calls:
        return "c"
    letter = message.role[0]
    return letter.upper() if letter in "ua" and _is_empty(message) else letter


@cache
def _unread(roles: Roles) -> re.Pattern[str]:
    """Finds what a template does not read in the letters of a conversation. So a long chat is looked at in the time of
    a search, and the letters of its known messages are kept."""
    neighbours = "ss|dd" if roles.several_system else "[sd][sd]"  # models were trained on one system message
    lacking = {
        "system": "[sd]",
        "developer": "d",
        "late_system": "(?<=[^sd])[sd]",
        "user_runs": "[uU][uU]",
        "assistant_runs": "[aA][aAc]",
        "tool": "t",
        "user_after_tool": "t[uU]",
        "empty": "[UA]",
        "long_call_ids": "[ct]",
    }
    return re.compile(
        "|".join([neighbours, *(letters for name, letters in lacking.items() if not getattr(roles, name))])
    )


CAPABILITIES = tuple(each.name for each in fields(Roles))


def folded(messages: Iterable[Message]) -> list[Message]:
    """Messages with every instruction marked, as part of the user message beside it: the next one, else the one before,
    else one of its own. None of them crosses a message of another role."""
    placed: list[Message] = []
    held: list[Message] = []
    for message in messages:
        if message.role in INSTRUCTIONS:
            held.append(_marked(message))
        elif held and message.role == "user":
            placed.append(reduce(_run, (*held, message)))
            held = []
        else:
            _settle(placed, held)
            placed.append(message)
            held = []
    _settle(placed, held)
    return placed


def _settle(placed: list[Message], held: Sequence[Message]) -> None:
    """Adds instructions that no user message follows."""
    if held and placed and placed[-1].role == "user":
        placed[-1] = reduce(_run, (placed[-1], *held))
    elif held:
        placed.append(reduce(_run, held))


def _marked(message: Message) -> Message:
    """A user message that says of its text whose it is."""
    name = f"{message.role}_message"
    return Message("user", (f"<{name}>\n{message.text}\n</{name}>",))


def short_id(call_id: str) -> str:
    """The id of a call as nine letters and digits; such an id stays as it is."""
    if len(call_id) == SHORT_ID_CHARS and call_id.isalnum() and call_id.isascii():
        return call_id
    return hashlib.sha256(call_id.encode()).hexdigest()[:SHORT_ID_CHARS]


def _run(before: Message, message: Message) -> Message:
    """Two messages of one role as one, with a blank line between two texts."""
    parts, more = before.parts, message.parts
    if parts and more and isinstance(parts[-1], str) and isinstance(more[0], str):
        parts, more = (*parts[:-1], f"{parts[-1]}{_RUN_BREAK}{more[0]}"), more[1:]
    reasoning = "\n".join(filter(None, (before.reasoning, message.reasoning)))
    return message._replace(parts=(*parts, *more), reasoning=reasoning)


def _is_empty(message: Message) -> bool:
    return not (any(message.parts) or message.calls or message.role == "tool")


def _unsayable(message: str) -> InvalidRequest:
    return InvalidRequest(message, field="input", code="unsupported_value")
