"""The ids of calls in prompts, for models that were trained on ids in a form of their own (Kimi K2).

A form has NAME for the tool and INDEX for the number of the call in the conversation, from 0. Templates differ: the
model's own prints the ids that it is given, others make the ids of calls by their place in a message, and print the
given ids with the results only. Then the given ids have to be counted in the same way, or no result has its call.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from antiphon_core.errors import InvalidRequest
from antiphon_translator.conversation import Call, Conversation, Message


@dataclass(frozen=True, slots=True)
class CallIds:
    """The ids of calls in prompts. `form` is empty for a model that takes any ids. `are_made`: the template makes the
    ids of calls by their place in a message."""

    form: str = ""
    are_made: bool = False

    def of(self, call: Call, *, number: int, place: int) -> str:
        """The id of a call that is the `number`th of its conversation, and the `place`th of its message, from 0; empty
        for that of the call itself."""
        if not self.form or (call.model_id and not self.are_made):
            return call.model_id
        index = place if self.are_made else number
        return self.form.replace("NAME", call.name).replace("INDEX", str(index))


ANY = CallIds()


class Render(Protocol):
    def __call__(self, conversation: Conversation, *, now_s: int) -> str: ...


def of(form: str, render: Render) -> CallIds:
    """The ids in this form for the template behind `render`."""
    if not form:
        return ANY
    ids = [form.replace("NAME", "f").replace("INDEX", str(index)) for index in range(2)]
    try:
        prompt = render(Conversation((Message("user", ("Hi",)), *_called(ids[0]), *_called(ids[1]))), now_s=0)
    except InvalidRequest:
        return CallIds(form)
    return CallIds(form, are_made=prompt.count(ids[1]) == 1)


def _called(call_id: str) -> tuple[Message, ...]:
    calling = Message("assistant", (), calls=(Call(call_id, "f", {}),))
    return calling, Message("tool", ("Done.",), call_id=call_id, name="f")
