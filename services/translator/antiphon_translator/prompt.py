"""From a conversation to the token ids that the model is sent."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

from antiphon_core import limits
from antiphon_core.errors import InvalidRequest
from antiphon_translator.conversation import Conversation
from antiphon_translator.prompt_cache import CachingEncoder
from antiphon_translator.templates import image_mark
from antiphon_translator.templates.control_tokens import ControlTokens
from antiphon_translator.tokens import ModelTokenizer


class ChatTemplate(Protocol):
    """How one model wants a conversation written down."""

    @property
    def variables(self) -> Collection[str]:
        """What the template asks for by name."""

    @property
    def image_mark(self) -> str:
        """What it writes for each image; empty if it has no place for any."""

    def render(self, conversation: Conversation, *, now_s: int, switches: Mapping[str, Any] | None = None) -> str:
        """The prompt up to where the model has to go on; `now_s` is Unix time, `switches` are more variables."""


class PromptEncoder:
    """One model's template and vocabulary. Safe to use from several threads."""

    def __init__(
        self, template: ChatTemplate, tokenizer: ModelTokenizer, *, cache_bytes: int = limits.PROMPT_CACHE_BYTES_DEFAULT
    ) -> None:
        """`cache_bytes` bound what is kept of earlier prompts; 0: nothing is."""
        self._template = template
        self._encoder = CachingEncoder(tokenizer, most_bytes=cache_bytes)
        self._control = ControlTokens(tokenizer.added)

    @property
    def variables(self) -> Collection[str]:
        """What the model's template asks for by name."""
        return self._template.variables

    def write(self, conversation: Conversation, *, now_s: int, switches: Mapping[str, Any] | None = None) -> str:
        """The prompt as text, for a server that encodes it by itself.

        InvalidRequest: the template refuses the conversation, or something in it spells a control token, which that
        server could not tell from one, or there is not one place for each image.
        """
        pieces = self._pieces(conversation, now_s=now_s, switches=switches)
        if len(pieces) > 1:
            raise _spells_a_control_token()
        mark = self._template.image_mark
        if image_mark.count(pieces[0], mark) != len(conversation.images):
            raise _misplaces_images(mark)
        return pieces[0]

    def encode(self, conversation: Conversation, *, now_s: int, switches: Mapping[str, Any] | None = None) -> list[int]:
        """The prompt. No text of the conversation becomes a control token (templates/control_tokens.py).

        InvalidRequest: the template refuses the conversation, or a text becomes a control token all the same.
        """
        pieces = self._pieces(conversation, now_s=now_s, switches=switches)
        spans = [list(self._control.spans(piece)) for piece in pieces]
        ids: list[int] = []
        for piece, found in zip(pieces, spans, strict=True):
            ids += self._encoder.encode(piece, found)
        intended = sum(map(len, spans))
        if sum(map(self._control.ids.__contains__, ids)) > intended:
            # A tokenizer that normalises its text can make a control token of something that does not look like one.
            raise _spells_a_control_token()
        return ids

    def _pieces(self, conversation: Conversation, *, now_s: int, switches: Mapping[str, Any] | None) -> list[str]:
        return self._control.pieces(
            conversation, lambda shown: self._template.render(shown, now_s=now_s, switches=switches)
        )


def _misplaces_images(mark: str) -> InvalidRequest:
    return InvalidRequest(
        f"This model's chat template has no place for one of these images, or a text spells {mark!r}, which stands "
        "for one.",
        field="input",
        code="unsupported_value",
    )


def _spells_a_control_token() -> InvalidRequest:
    return InvalidRequest(
        "The input has text that this model's tokenizer reads as a control token.",
        field="input",
        code="unsupported_value",
    )
