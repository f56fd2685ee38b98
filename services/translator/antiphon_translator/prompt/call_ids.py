"""The ids of calls in prompts, for models that were trained on ids in a form of their own (Kimi K2).

A form has NAME for the tool and INDEX for the number of the call in the conversation, from 0. Templates differ: the
model's own prints the ids that it is given, others make the ids of calls by their place in a message, and print the
given ids with the results only. Then the given ids have to be counted in the same way, or no result has its call.
"""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import dataclass
from itertools import count
from typing import Protocol

from antiphon_core.errors import InvalidRequest
from antiphon_translator.conversation import Call, Conversation, Message


@dataclass(frozen=True, slots=True)
class CallIds:
    """The ids of calls in prompts. `form` is empty for a model that takes any ids. `are_made`: the template makes the
    ids of calls by their place in a message."""

    form: str = ""
    are_made: bool = False

    def of(self, call: Call, *, used: Container[str], number: int, place: int) -> str:
        """The id of a call that is the `number`th of its conversation, and the `place`th of its message, from 0; empty
        for that of the call itself. No two calls get one of the `used` ids: a client may have left some of them out."""
        if self.are_made:
            return self._make_id(call.name, place)
        if call.model_id and call.model_id not in used:
            return call.model_id
        if not self.form:
            return ""
        return next(made for index in count(number) if (made := self._make_id(call.name, index)) not in used)

    def _make_id(self, name: str, index: int) -> str:
        return self.form.replace("NAME", name).replace("INDEX", str(index))


ANY = CallIds()


def is_named(model_id: str, name: str) -> bool:
    """Whether an id has the name of the called tool and a number, as models write them that need it again."""
    return re.fullmatch(rf"(?:.*\W)?{re.escape(name)}:\d+", model_id) is not None


class Render(Protocol):
    def __call__(self, conversation: Conversation, *, now_s: int) -> str: ...


def of(form: str, render: Render) -> CallIds:
    """The ids in this form for the template behind `render`."""
    if not form:
        return ANY
    ids = [form.replace("NAME", "f").replace("INDEX", str(index)) for index in range(2)]
    try:
        prompt = render(Conversation((Message("user", ("Hi",)), *_call_round(ids[0]), *_call_round(ids[1]))), now_s=0)
    except InvalidRequest:
        return CallIds(form)
    return CallIds(form, are_made=prompt.count(ids[1]) == 1)


def _call_round(call_id: str) -> tuple[Message, ...]:
    calling = Message("assistant", (), calls=(Call(call_id, "f", {}),))
    return calling, Message("tool", ("Done.",), call_id=call_id, name="f")
