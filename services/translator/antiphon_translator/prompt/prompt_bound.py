"""An upper bound of the number of tokens in a prompt, without rendering or encoding it.

A server of chat completions encodes its prompts by itself. Here the number of tokens is only needed to limit the length
of the answer, so a bound is enough while the prompt is far from filling the context. The bound relies on this:

* A token has one byte at least, so a text has no more tokens than bytes, times the growth by normalisation.
* A template writes less than `AROUND_TOKENS` tokens around a message, a call or a tool, besides the text itself.
* Text that a template writes in any case, it writes for a conversation of one word and one tool, too. That one is
  rendered once.
* A template may indent JSON, which makes it `JSON_GROWTH` times as long at most.

The test checks the second and the last point with the templates in tests/golden/templates; they hold for the templates
of llama.cpp, too. If a template writes more, the server rejects the turn itself, which is the worst case.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Protocol

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object, dumps
from antiphon_translator.conversation import Conversation, Message

AROUND_TOKENS = 64
JSON_GROWTH = 3

_WORD = (Message("user", ("Hi",)),)
_TOOL: Object = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}


class Render(Protocol):
    def __call__(self, conversation: Conversation, *, now_s: int) -> str: ...


class PromptBound:
    """The bound for one template and vocabulary."""

    def __init__(self, render: Render, growth: int) -> None:
        """`growth` is the most by which normalisation multiplies the bytes of a text that is not ASCII."""
        self._fixed = _fixed_tokens(render)
        self._growth = growth

    def of(self, conversation: Conversation) -> int:
        """The bound for a conversation, without its images."""
        tokens = self._fixed
        if conversation.tools:
            # Mistral's templates write the tools before each message that equals the last one.
            times = conversation.messages.count(conversation.messages[-1])
            tokens += times * self._json_tokens(conversation.tools)
        return tokens + sum(conversation.each(self._message_tokens))

    def _message_tokens(self, message: Message) -> int:
        tokens = AROUND_TOKENS
        for part in message.parts:
            tokens += self._tokens(part) if isinstance(part, str) else AROUND_TOKENS
        if message.reasoning:
            tokens += self._tokens(message.reasoning)
        tokens += self._tokens(message.call_id) + self._tokens(message.name)
        for call in message.calls:
            tokens += self._tokens(call.id) + self._tokens(call.name) + self._json_tokens((call.arguments,))
        return tokens

    def _tokens(self, text: str) -> int:
        return len(text) if text.isascii() else len(text.encode()) * self._growth

    def _json_tokens(self, values: tuple[Any, ...]) -> int:
        written = (dumps(value).decode() for value in values)
        return sum(AROUND_TOKENS + JSON_GROWTH * self._tokens(text) for text in written)


def _fixed_tokens(render: Render) -> int:
    """The bound of the tokens that a template writes in any case; `sys.maxsize` if it rejects even one word."""
    return max(_write_sizes(render), default=sys.maxsize)


def _write_sizes(render: Render) -> Iterator[int]:
    for tools in ((), (_TOOL,)):
        try:
            yield len(render(Conversation(_WORD, tools), now_s=0).encode())
        except InvalidRequest:
            continue
