from __future__ import annotations

import pytest

from antiphon_translator.engines import length_errors


@pytest.mark.parametrize(
    "text",
    [
        "This model's maximum context length is 8192 tokens.",
        "Prompt length (5000) exceeds maximum input length (4096).",
        "The sum of prompt length (9.0), query length (0) should not exceed max_num_tokens (8)",
    ],
)
def test_text_about_a_prompt_that_is_too_long_is_recognized(text: str) -> None:
    assert length_errors.is_in(text)


@pytest.mark.parametrize("text", ["", "out of paper", "exceeds maximum queue size", "unexpected shape for input 'x'"])
def test_other_text_is_not_about_the_length_of_a_prompt(text: str) -> None:
    assert not length_errors.is_in(text)
