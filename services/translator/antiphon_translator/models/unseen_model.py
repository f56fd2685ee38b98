"""Stands in for the directory of a model that only its chat server has: no tokenizer, no template.

Such a model's prompts are neither written nor counted here. Its server does both, and refuses what is too long.
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
    """The place of a chat template that nobody here can render."""

    variables: Collection[str] = frozenset({"enable_thinking", "thinking", "reasoning_effort"})
    """The switches that templates have: one that does not know a variable passes over it."""
    literals: Collection[str] = ()
    image_mark = ""

    def render(self, conversation: Conversation, *, now_s: int, switches: Mapping[str, Any] | None = None) -> str:
        """InvalidRequest, always."""
        raise unmeasured("this")


def facts() -> ModelFacts:
    """A model of which nothing is known. Its tokenizer is an estimate: a token for each TOKEN_CHARS characters, for the
    length of an answer that its server did not count."""
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


def unmeasured(what: str, *, field: str | None = None) -> InvalidRequest:
    """The refusal of what needs the model's tokenizer."""
    return InvalidRequest(
        f"This model has no tokenizer here, which {what} needs: its profile can name a 'directory' that has one.",
        field=field,
        code="unsupported_value",
    )
