"""Recognizes the errors of engines for a prompt that does not fit into their context. As with a guide that an engine
cannot use (guide_errors.py), such an error is the request's, and no reason to eject an endpoint.

A profile gives the context length of its model. An engine that was built for less rejects longer prompts itself.
"""

from __future__ import annotations

import re

_TOO_LONG = re.compile(
    r"(?:maximum|available|model'?s?) context (?:length|size|window)|context_length_exceeded|exceed_context_size"
    r"|longer than the (?:maximum )?(?:model|context) length|exceeds? (?:the )?(?:max_model_len|context)"
    r"|exceeds? (?:the )?(?:maximum input length|max_input_len|max_seq_len|max_num_tokens)"
    r"|max_tokens must be at least 1, got -"
)
"""The texts of vLLM, SGLang, llama.cpp, NIM, OpenAI and TensorRT-LLM, in lower case."""


def is_in(text: str) -> bool:
    """Whether the text of an engine's error says that the prompt is too long."""
    return _TOO_LONG.search(text.lower()) is not None
