"""From a conversation to the token ids that the model is sent."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from antiphon_core import limits, offload
from antiphon_core.errors import InvalidRequest
from antiphon_translator.conversation import Conversation
from antiphon_translator.prompt.prompt_bound import PromptBound
from antiphon_translator.prompt.prompt_cache import CachingEncoder, UnspeltControlToken
from antiphon_translator.templates import image_mark, role_probe
from antiphon_translator.templates.control_tokens import ControlTokens
from antiphon_translator.templates.defused import Defusal
from antiphon_translator.templates.roles import Roles
from antiphon_translator.tokenizer.tokens import ModelTokenizer


class ChatTemplate(Protocol):
    """How one model wants a conversation written down."""

    @property
    def variables(self) -> Collection[str]:
        """The names of the variables that the template reads."""

    @property
    def literals(self) -> Collection[str] | None:
        """All texts that it writes by itself; None where that is not known."""

    @property
    def image_mark(self) -> str:
        """The text that the template writes for each image; empty if it has no place for images."""

    def render(self, conversation: Conversation, *, now_s: int, switches: Mapping[str, Any] | None = None) -> str:
        """The prompt up to where the model has to go on; `now_s` is Unix time, `switches` are more variables."""


@dataclass(frozen=True, slots=True)
class EncodedPrompt:
    """A prompt, in `pieces` that meet inside the names of control tokens which somebody only spelt. `ids` is empty
    where there are more `tokens` than were wanted; where that was seen before all was encoded, there are no `pieces`,
    and `tokens` are those that there are at least (`is_floor`)."""

    pieces: Sequence[str]
    tokens: int
    ids: Sequence[int]
    is_floor: bool = False


class PromptEncoder:
    """One model's template and vocabulary. Safe to use from several threads."""

    def __init__(
        self,
        template: ChatTemplate,
        tokenizer: ModelTokenizer,
        *,
        roles: Roles | None = None,
        cache_bytes: int = limits.PROMPT_CACHE_BYTES_DEFAULT,
    ) -> None:
        """`roles` are those that the model reads; without them the template is asked. `cache_bytes` bound what is kept
        of earlier prompts; 0: nothing is."""
        self._template = template
        self.roles = role_probe.of(template.render) if roles is None else roles
        self._control = ControlTokens(tokenizer.added, template.literals)
        self._encoder = CachingEncoder(tokenizer, self._control, most_bytes=cache_bytes)
        self._bound = PromptBound(template.render, tokenizer.growth)
        self._floor = tokenizer.floor
        self._defusal = Defusal(tokenizer, self._control)

    @property
    def variables(self) -> Collection[str]:
        """The names of the variables that the model's template reads."""
        return self._template.variables

    def tokens_at_most(self, conversation: Conversation) -> int:
        """No prompt of this conversation has more. Costs next to nothing."""
        return self._bound.of(conversation)

    def defused(self, conversation: Conversation) -> Conversation:
        """A conversation for a server that renders it by itself: no text in it spells a control token, as far as the
        tokenizer is here. InvalidRequest: one does, and cannot be kept from it."""
        return self._defusal.of(conversation)

    def text(self, prompt: EncodedPrompt, conversation: Conversation) -> str:
        """The prompt of a conversation as text, for a server that encodes it by itself.

        InvalidRequest: something in it spells a control token, which that server could not tell from one, or there is
        not one place for each image.
        """
        if len(prompt.pieces) > 1:
            raise _spells_a_control_token()
        mark = self._template.image_mark
        if image_mark.count(prompt.pieces[0], mark) != len(conversation.images):
            raise _misplaces_images(mark)
        return prompt.pieces[0]

    def encode(
        self,
        conversation: Conversation,
        *,
        now_s: int,
        switches: Mapping[str, Any] | None = None,
        most_tokens: int | None = None,
    ) -> EncodedPrompt:
        """The prompt. No text of the conversation becomes a control token (templates/control_tokens.py). Of more than
        `most_tokens` the ids are not wanted.

        InvalidRequest: the template refuses the conversation, or a text becomes a control token all the same.
        """
        conversation = self.roles.adapt(conversation)

        def render(shown: Conversation) -> str:
            offload.require_wanted()
            return self._fitting(self._template.render(shown, now_s=now_s, switches=switches), most_tokens)

        try:
            pieces = self._control.pieces(conversation, render)
            encoded = self._encoder.encode(pieces, apart=_opening(conversation, pieces[0]), most_tokens=most_tokens)
        except _CannotFit as error:
            return EncodedPrompt((), error.tokens, (), is_floor=True)
        except UnspeltControlToken as error:
            raise _spells_a_control_token() from error
        return EncodedPrompt(pieces, encoded.tokens, encoded.ids, encoded.is_floor)

    def _fitting(self, prompt: str, most_tokens: int | None) -> str:
        """A prompt that may have so few tokens. Raises _CannotFit."""
        if most_tokens is not None and len(prompt) > most_tokens and self._floor.of(prompt) > most_tokens:
            raise _CannotFit(self._floor.of(prompt))
        return prompt


class _CannotFit(Exception):
    """A prompt has more tokens than are wanted, however it is encoded."""

    def __init__(self, tokens: int) -> None:
        super().__init__(tokens)
        self.tokens = tokens


def _opening(conversation: Conversation, prompt: str) -> int:
    """How much of the prompt is what the system says before anybody else; nothing where that is not to be seen."""
    first = conversation.messages[0]
    if first.role not in ("system", "developer") or not first.text:
        return 0
    place = prompt.find(first.text)
    return place + len(first.text) if place >= 0 else 0


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
