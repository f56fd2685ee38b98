"""The largest token counts that an engine can have counted, by what it was sent and what it sent.

A tenant's quota is charged with the counts of an engine. One that reported two billion tokens for an answer of three
words locked its tenant out for years. A count beyond its bound is no count: the tokenizer counts instead, as it does
for servers that report none. The details of a count are bounded by the count itself (output/outputs.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from antiphon_translator.generation import GenerationRequest, ReportedUsage, TextPrompt

TEMPLATE_TOKENS_MAX = 16_384
"""Tokens that a server's template may add to a prompt. A token of the text that was sent has one byte at least, and
usually four: so tools may be written three times as long as they were sent."""
IMAGE_TOKENS_MAX = 32_768
"""Tokens of one image; Qwen2-VL has up to 16,384."""
HIDDEN_TOKENS_MAX = 131_072
"""Tokens of reasoning that a server counts and does not show."""
OVER_TOKENS_MAX = 64
"""Tokens beyond the limit of a request: of ends, and of a server that drafts several at once."""


@dataclass(frozen=True, slots=True)
class UsageBounds:
    """The bounds of one generation."""

    input_max: int
    output_max: int

    @classmethod
    def of(cls, request: GenerationRequest, *, sent_bytes: int, images: int) -> UsageBounds:
        """`sent_bytes` are those of the prompt, as the engine was sent it."""
        input_max = sent_bytes + TEMPLATE_TOKENS_MAX + IMAGE_TOKENS_MAX * images
        return cls(input_max, request.max_tokens + OVER_TOKENS_MAX)

    @classmethod
    def of_text(cls, request: GenerationRequest) -> UsageBounds:
        """The bounds of a generation whose engine is sent a text."""
        prompt = request.prompt_as(TextPrompt)
        return cls.of(request, sent_bytes=len(prompt.text.encode()), images=len(prompt.images))

    def plausible(self, usage: ReportedUsage, *, received_chars: int | None = None) -> ReportedUsage:
        """The usage without the counts that cannot be right. `received_chars` is the content of the answer, as its
        reader counts it, where it bounds the output."""
        output_max = self.output_max
        if received_chars is not None:
            output_max = min(output_max, received_chars + HIDDEN_TOKENS_MAX)
        return replace(
            usage,
            input_tokens=_within(usage.input_tokens, self.input_max),
            output_tokens=_within(usage.output_tokens, output_max),
        )


def _within(count: int | None, most: int) -> int | None:
    return count if count is not None and 0 <= count <= most else None
