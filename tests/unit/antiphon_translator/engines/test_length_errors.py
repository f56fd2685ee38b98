from __future__ import annotations

import re

import pytest

from antiphon_translator.engines import length_errors
from antiphon_translator.engines.length_errors import LENGTH_ERRORS, LengthError


@pytest.mark.parametrize("row", LENGTH_ERRORS, ids=lambda row: row.server)
def test_each_row_recognizes_its_own_example(row: LengthError) -> None:
    assert re.search(row.pattern, row.example.lower())


@pytest.mark.parametrize(
    "text",
    [
        "Input length (9000) exceeds model's maximum context length (4096).",
        "input length (9000 tokens) exceeds the model's maximum context length (4096 tokens)",
        "'max_tokens' or 'max_completion_tokens' is too large: 5000. This model's maximum context length is 4096 "
        "tokens and your request has 200 input tokens (5000 > 4096 - 200).",
        "The encoder prompt (length 9000) is longer than the maximum model length of 4096.",
        "the request exceeds the available context size, try increasing it",
        "Sum of prompt length 9000 and max_tokens 1000 exceeds max_seq_len 4096",
        "default_max_tokens (-10) must be greater than 0, default_max_tokens (-10) = max_seq_len (4096)",
        "(n_keep: 13055>= n_ctx: 4096). Try to load the model with a larger context length",
        "Prompt too long: 9000 tokens exceeds max context window of 8192 tokens",
        "Please reduce the length of the input prompt.",
        "400 exceed_context_size_error no",
        "context_length_exceeded None Too long.",
    ],
)
def test_other_forms_of_these_texts_are_recognized(text: str) -> None:
    assert length_errors.is_in(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "out of paper",
        "exceeds maximum queue size",
        "unexpected shape for input 'x'",
        "max_tokens must be at least 1, got 0.",
        "`max_new_tokens` must be <= 512. Given: 600",
        "`inputs` cannot be empty",
        "Image size 9 bytes exceeds maximum allowed size of 8 bytes",
        "`stop` supports up to 4 stop sequences. Given: 5",
        "The tool name is too long: at most 64 characters.",
        "Conversation roles must alternate user/assistant/user/assistant/...",
        "Rate limit exceeded: 9000 tokens per minute.",
    ],
)
def test_other_text_is_not_about_the_length_of_a_prompt(text: str) -> None:
    assert not length_errors.is_in(text)
