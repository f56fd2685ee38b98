"""Recognizes the errors of engines for a prompt that does not fit into their context.

Such an error is caused by the request, and is no reason to eject the endpoint. The errors of guides are treated in the
same way (guide_errors.py). They occur where an engine was built for a shorter context than the profile of its model
says; the translator itself rejects prompts that are longer than the profile allows.
"""

from __future__ import annotations

import re

_TOO_LONG = re.compile(
    r"(?:maximum|available|model'?s?) context (?:length|size|window)|context_length_exceeded|exceed_context_size"
    r"|longer than the (?:maximum )?(?:model|context) length|exceeds? (?:the )?(?:max_model_len|context)"
    r"|exceeds? (?:the )?(?:maximum input length|max_input_len|max_seq_len|max_num_tokens)"
    r"|max_tokens must be at least 1, got -"
)
"""The error texts of vLLM, SGLang, llama.cpp, NIM, OpenAI and TensorRT-LLM, in lower case."""


def is_in(text: str) -> bool:
    """Whether the text of an engine's error says that the prompt is too long."""
    return _TOO_LONG.search(text.lower()) is not None
