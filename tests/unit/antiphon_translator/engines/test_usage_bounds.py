from __future__ import annotations

import pytest

from antiphon_translator.engines.usage_bounds import (
    HIDDEN_TOKENS_MAX,
    IMAGE_TOKENS_MAX,
    OVER_TOKENS_MAX,
    TEMPLATE_TOKENS_MAX,
    UsageBounds,
)
from antiphon_translator.generation import UNLIMITED, GenerationRequest, ReportedUsage, TextPrompt

PROMPT = TextPrompt("Hello")
REQUEST = GenerationRequest("r", PROMPT, max_tokens=100)
INPUT_MAX = len("Hello") + TEMPLATE_TOKENS_MAX


@pytest.mark.parametrize("count", [0, 1, INPUT_MAX])
def test_counts_within_the_bounds_are_kept(count: int) -> None:
    usage = ReportedUsage(count, 100, reasoning_tokens=7, cached_tokens=3)
    assert UsageBounds.of_text(REQUEST).plausible(usage) == usage


@pytest.mark.parametrize("count", [-5, INPUT_MAX + 1, 2**31 - 1, 10**18])
def test_counts_beyond_the_bounds_are_left_out(count: int) -> None:
    found = UsageBounds.of_text(REQUEST).plausible(ReportedUsage(count, count))
    assert (found.input_tokens, found.output_tokens) == (None, None)


def test_each_image_of_the_prompt_has_its_tokens() -> None:
    bounds = UsageBounds.of(REQUEST, sent_bytes=10, images=2)
    assert bounds.input_max == 10 + TEMPLATE_TOKENS_MAX + 2 * IMAGE_TOKENS_MAX


def test_output_without_a_limit_is_bounded_by_what_was_received_and_hidden_reasoning() -> None:
    bounds = UsageBounds.of(GenerationRequest("r", PROMPT, max_tokens=UNLIMITED), sent_bytes=10, images=0)
    most = 1_000 + HIDDEN_TOKENS_MAX
    assert bounds.plausible(ReportedUsage(1, most), received_chars=1_000).output_tokens == most
    assert bounds.plausible(ReportedUsage(1, most + 1), received_chars=1_000).output_tokens is None


def test_output_may_exceed_its_limit_by_a_few_tokens() -> None:
    bounds = UsageBounds.of_text(REQUEST)
    assert bounds.plausible(ReportedUsage(1, 100 + OVER_TOKENS_MAX)).output_tokens is not None
    assert bounds.plausible(ReportedUsage(1, 101 + OVER_TOKENS_MAX)).output_tokens is None
