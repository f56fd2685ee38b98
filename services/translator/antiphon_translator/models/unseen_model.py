"""Stands in for the model directory of an openai_chat model whose profile names none: no tokenizer, no template.

Such a model's prompts are neither written nor counted here. Its server does both, and rejects a prompt that is too
long.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from tokenizers import Regex, Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Split

from antiphon_core.errors import InvalidRequest
from antiphon_translator.conversation import Conversation
from antiphon_translator.models.model_directory import ModelFacts
from antiphon_translator.tokenizer.tokens import ModelTokenizer

TOKEN_CHARS = 4


class UnseenTemplate:
    """Stands in for a chat template that only the model's server has."""

    variables: Collection[str] = frozenset({"enable_thinking", "thinking", "reasoning_effort"})
    """The switches of known templates. The server's template ignores those that it does not read."""
    literals: Collection[str] = ()
    image_mark = ""

    def render(self, conversation: Conversation, *, now_s: int, switches: Mapping[str, Any] | None = None) -> str:
        """InvalidRequest, always."""
        raise unmeasured_error("this")


def facts() -> ModelFacts:
    """The facts of a model without a directory. The tokenizer only estimates, one token for each TOKEN_CHARS
    characters: the length of an answer where the server reports no usage."""
    filler = "x"
    estimate = Tokenizer(WordLevel({filler: 0}, unk_token=filler))
    estimate.pre_tokenizer = Split(Regex(f"[\\s\\S]{{1,{TOKEN_CHARS}}}"), "isolated")
    return ModelFacts(
        tokenizer=ModelTokenizer(estimate),
        chat_template=None,
        special_tokens={},
        stop_ids=(),
        sampling_defaults={},
        context_length=None,
    )


def unmeasured_error(what: str, *, field: str | None = None) -> InvalidRequest:
    """The error for a request that needs the model's tokenizer."""
    return InvalidRequest(
        f"This model has no tokenizer here, and {what} needs one: its profile can name a 'directory' that has one.",
        field=field,
        code="unsupported_value",
    )
