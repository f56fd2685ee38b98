"""Prevents prompt injection by control tokens where a chat completions server renders and encodes the conversation.

For a prompt of token ids a text is cut inside the name of a control token (control_tokens.py). A server of chat
completions is sent texts, and its tokenizer would read `<|im_start|>` in a message as the token. So an invisible
character is inserted behind the first character of the name: people and models read nearly the same, and the tokenizer
does not find the token. The character is one with which no name of the vocabulary is encoded to a control token. If
there is no such character, the request is rejected.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from antiphon_core.errors import InvalidRequest
from antiphon_translator.conversation import Conversation, Message
from antiphon_translator.templates.control_tokens import ControlTokens
from antiphon_translator.tokenizer.tokens import ModelTokenizer

WORD_JOINER, ZERO_WIDTH_SPACE = "\u2060", "\u200b"


class Defusal:
    """Separates the names of control tokens in texts, for one vocabulary. Safe to use from several threads."""

    def __init__(self, tokenizer: ModelTokenizer, control: ControlTokens) -> None:
        self._tokenizer = tokenizer
        self._control = control

    def of(self, conversation: Conversation) -> Conversation:
        """The conversation without names of control tokens in its texts; the same object where it has none.

        InvalidRequest: a key that is a word spells a name, or no character keeps the tokenizer from reading it."""
        self._control.require_plain(conversation.object_keys())
        if not any(conversation.each(self._spells)) and not self._is_in(conversation.tool_texts()):
            return conversation
        if self._separator is None:
            raise InvalidRequest(
                "The input has text that this model's tokenizer reads as a control token.",
                field="input",
                code="unsupported_value",
            )
        return conversation.map_text(self._defuse, self._defuse)

    def _spells(self, message: Message) -> bool:
        return self._is_in(message.texts())

    def _is_in(self, texts: Iterable[str]) -> bool:
        return any(self._control.find(text) is not None for text in texts)

    def _defuse(self, text: str) -> str:
        pieces, at = list[str](), 0
        while (span := self._control.find(text, at)) is not None:
            pieces.append(text[at : span[0] + 1])
            at = span[0] + 1
        pieces.append(text[at:])
        return (self._separator or "").join(pieces)

    @cached_property
    def _separator(self) -> str | None:
        """The character that keeps the tokenizer from reading the name of a control token as that token; None if there
        is none."""
        for separator in (WORD_JOINER, ZERO_WIDTH_SPACE):
            written = [name[0] + separator + name[1:] for name in self._control.names]
            if all(self._control.ids.isdisjoint(each.ids) for each in self._tokenizer.encode_all(written)):
                return separator
        return None
