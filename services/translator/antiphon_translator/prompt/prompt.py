"""Renders a conversation with the model's chat template, and encodes it to token ids."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from antiphon_core import limits, offload
from antiphon_core.errors import InvalidRequest
from antiphon_translator.conversation import Conversation
from antiphon_translator.lineage.ancestors import NO_ANCESTORS, Ancestors
from antiphon_translator.prompt.prompt_bound import PromptBound
from antiphon_translator.prompt.prompt_cache import CachingEncoder, PromptEnd, UnspeltControlToken
from antiphon_translator.templates import image_mark, role_probe
from antiphon_translator.templates.control_tokens import ControlTokens
from antiphon_translator.templates.defusal import Defusal
from antiphon_translator.templates.roles import Roles
from antiphon_translator.tokenizer.tokens import ModelTokenizer


class ChatTemplate(Protocol):
    """The chat template of one model."""

    @property
    def variables(self) -> Collection[str]:
        """The names of the variables that the template reads."""

    @property
    def literals(self) -> Collection[str] | None:
        """All literal texts in the template; None if they are not known."""

    @property
    def image_mark(self) -> str:
        """The text that the template writes for each image; empty if the template does not support images."""

    def render(self, conversation: Conversation, *, now_s: int, switches: Mapping[str, Any] | None = None) -> str:
        """Renders the prompt up to the answer. `now_s` is Unix time, `switches` are further variables."""


@dataclass(frozen=True, slots=True)
class EncodedPrompt:
    """A prompt as text, token count and ids.

    `pieces` is the text, cut inside names of control tokens that the conversation spells as plain text. `ids` is empty
    if the prompt has more `tokens` than the limit. If that was found before all of the prompt was encoded, `is_floor`
    is true, `tokens` is a lower bound, and `pieces` may be empty. `end` is that of `Encoded`.
    `ancestors` are the earlier turns whose prompts are beginnings of this one. `spliced` is that of `Encoded`."""

    pieces: Sequence[str]
    tokens: int
    ids: Sequence[int]
    is_floor: bool = False
    end: PromptEnd | None = None
    ancestors: Ancestors = NO_ANCESTORS
    spliced: int = 0


class PromptEncoder:
    """Makes the prompts of one model, with its template and its tokenizer. Safe to use from several threads."""

    def __init__(
        self,
        template: ChatTemplate,
        tokenizer: ModelTokenizer,
        *,
        roles: Roles | None = None,
        cache_bytes: int = limits.PROMPT_CACHE_BYTES_DEFAULT,
    ) -> None:
        """`roles` are those that the template supports; without them it is probed. `cache_bytes` is the limit of the
        cache of encoded prompts; 0 disables it."""
        self._template = template
        self.roles = role_probe.of(template.render) if roles is None else roles
        self._control = ControlTokens(tokenizer.added, template.literals)
        self._encoder = CachingEncoder(tokenizer, self._control, most_bytes=cache_bytes)
        self._bound = PromptBound(template.render, tokenizer.growth)
        self._floor = tokenizer.floor
        self._defusal = Defusal(tokenizer, self._control)
        self.fingerprint = _fingerprint(template, tokenizer)

    @property
    def literals(self) -> Collection[str]:
        """All texts that the model's template itself contains."""
        return self._template.literals or ()

    @property
    def variables(self) -> Collection[str]:
        """The names of the variables that the model's template reads."""
        return self._template.variables

    @property
    def image_mark(self) -> str:
        """The text that the model's template writes for each image; empty if it does not support images."""
        return self._template.image_mark

    def render(self, conversation: Conversation, *, now_s: int, switches: Mapping[str, Any]) -> str:
        """The text of a prompt, for comparison only. InvalidRequest: the template rejects the conversation.
        WorkAbandoned: the request no longer waits for the result."""
        offload.require_wanted()
        return self._template.render(self.roles.adapt(conversation), now_s=now_s, switches=switches)

    def tokens_at_most(self, conversation: Conversation) -> int:
        """An upper bound of the tokens in the prompt of this conversation, without rendering it."""
        return self._bound.of(conversation)

    def defuse(self, conversation: Conversation) -> Conversation:
        """A conversation for a server that renders it by itself: no text in it spells a control token that the
        tokenizer knows. InvalidRequest: a text does, and cannot be changed."""
        return self._defusal.of(conversation)

    def text(self, prompt: EncodedPrompt, conversation: Conversation) -> str:
        """The prompt of a conversation as text, for a server that encodes it by itself.

        InvalidRequest: a text in the conversation spells a control token, which that server could not tell from a real
        one, or the template does not write exactly one mark for each image.
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
        ancestors: Ancestors = NO_ANCESTORS,
        salt: str = "",
    ) -> EncodedPrompt:
        """The encoded prompt. No text of the conversation becomes a control token (templates/control_tokens.py). A
        prompt of more than `most_tokens` has no ids. Where the prompt has the text that `ancestors` wrote, it has the
        ids that they wrote. Prompts of two salts share nothing in the cache.

        InvalidRequest: the template rejects the conversation, or a text becomes a control token all the same.
        """
        conversation = self.roles.adapt(conversation)

        def render(shown: Conversation) -> str:
            offload.require_wanted()
            prompt = self._template.render(shown, now_s=now_s, switches=switches)
            if most_tokens is not None and len(prompt) > most_tokens:
                self._require_fitting(prompt, most_tokens)
            return prompt

        try:
            pieces = self._control.pieces(conversation, render)
            holding = ancestors.of_prompt(pieces) if ancestors.lineages else ancestors
            outputs, apart = holding.outputs if holding.lineages else (), _opening(conversation, pieces[0])
            encoded = self._encoder.encode(pieces, apart=apart, most_tokens=most_tokens, outputs=outputs, salt=salt)
        except _CannotFit as error:
            return EncodedPrompt((), error.tokens, (), is_floor=True)
        except UnspeltControlToken as error:
            raise _spells_a_control_token() from error
        is_floor, end = encoded.is_floor, encoded.end
        return EncodedPrompt(pieces, encoded.tokens, encoded.ids, is_floor, end, holding, encoded.spliced)

    def tokens_before(self, chars: int, prompt: EncodedPrompt, conversation: Conversation, *, salt: str = "") -> int:
        """The number of tokens in the first `chars` of a prompt's text, most of which the cache has. It may differ by a
        few from the prompt's own, where that has the ids of earlier outputs."""
        pieces, left = list[str](), chars
        for piece in prompt.pieces:
            if left <= 0:
                break
            pieces.append(piece[:left])
            left -= len(piece)
        if not pieces:
            return 0
        apart = _opening(self.roles.adapt(conversation), prompt.pieces[0])
        return min(self._encoder.encode(pieces, apart=apart, salt=salt).tokens, prompt.tokens)

    def remember(self, prompt: EncodedPrompt, written: Sequence[int]) -> None:
        """Keeps the ids that the model wrote behind a prompt, for later prompts that have their text."""
        if prompt.end is not None and written:
            self._encoder.remember(prompt.end, written)

    def _require_fitting(self, prompt: str, most_tokens: int) -> None:
        """_CannotFit: the prompt has more than `most_tokens`, by the tokenizer's lower bound."""
        tokens = self._floor.of(prompt)
        if tokens > most_tokens:
            raise _CannotFit(tokens)


def _fingerprint(template: ChatTemplate, tokenizer: ModelTokenizer) -> int:
    """Tells apart models whose ids or prompts differ. A sample is enough, because the text of a prompt decides whether
    ids are used (splices.py): to hash a whole vocabulary takes a third of a second."""
    sample = tokenizer.encode("".join(map(chr, range(32, 0x17F))))
    texts = sorted(template.variables), sorted(template.literals or ())
    parts = tokenizer.size, sorted(tokenizer.added.items()), sample, texts
    return int.from_bytes(hashlib.blake2b(repr(parts).encode(errors="replace"), digest_size=8).digest())


class _CannotFit(Exception):
    """A prompt has more tokens than the limit, by the tokenizer's lower bound."""

    def __init__(self, tokens: int) -> None:
        super().__init__(tokens)
        self.tokens = tokens


def _opening(conversation: Conversation, prompt: str) -> int:
    """The length of the prompt up to the end of its system message; 0 if there is none at the beginning."""
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
