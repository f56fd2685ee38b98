"""Names of control tokens in the texts of a conversation, for a server that renders and encodes it by itself.

On the way of token ids such a text is cut inside the name (control_tokens.py). A server of chat completions is sent
texts, and its tokenizer would take `<|im_start|>` in a message for the token. Here an invisible character is put behind
the first character of the name: people and models read nearly the same, and no tokenizer reads the token. Which one
the vocabulary has to show: each name is encoded with it. Where none will do, the request is refused.
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
    """For one vocabulary. Safe to use from several threads."""

    def __init__(self, tokenizer: ModelTokenizer, control: ControlTokens) -> None:
        self._tokenizer = tokenizer
        self._control = control

    def of(self, conversation: Conversation) -> Conversation:
        """The conversation with no name of a control token in its texts; the same object where there is none.

        InvalidRequest: a key spells one, or nothing can keep the tokenizer from reading it."""
        self._control.require_plain(conversation.object_keys())
        if not any(conversation.each(self._spells)) and not self._is_in(conversation.tool_texts()):
            return conversation
        if self._separator is None:
            raise InvalidRequest(
                "The input has text that this model's tokenizer reads as a control token.",
                field="input",
                code="unsupported_value",
            )
        return conversation.map_text(self._defused)

    def _spells(self, message: Message) -> bool:
        return self._is_in(message.texts())

    def _is_in(self, texts: Iterable[str]) -> bool:
        return any(self._control.find(text) is not None for text in texts)

    def _defused(self, text: str) -> str:
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
