"""Recognizes the errors of engines that cannot apply a guide. Such an error is no reason to eject an endpoint: every
engine of the kind gives the same error for the same guide, to every client.

The texts are those of TensorRT-LLM's executor, xgrammar, llguidance, vLLM and llama.cpp.
"""

from __future__ import annotations

import re

from antiphon_core.errors import InvalidRequest

_NOT_SET_UP = re.compile(r"guideddecoder is not setup|guided decoding is not enabled")
_NO_GRAMMAR = re.compile(
    r"guided_decoding_guide|grammar error|compile grammar|(?:parse|parsing|invalid) grammar|not supported by xgrammar"
    r"|llguidance|unsatisfiable schema|json schema conversion failed|invalid json schema|unsupported json schema"
    r"|json schema error"
)


def of_text(text: str, *, server: str) -> InvalidRequest | None:
    """The error that the text of an engine's error stands for; None when the text is about something else."""
    lowered = text.lower()
    if _NOT_SET_UP.search(lowered):
        return _cannot_guide(f"{server} has no guided decoding set up.", code="unsupported_parameter")
    if _NO_GRAMMAR.search(lowered):
        return _cannot_guide(
            f"{server} cannot compile a grammar from the requested format. Leave out keywords that it may not support: "
            "patterns, formats and bounds first.",
            code="invalid_value",
        )
    return None


def _cannot_guide(message: str, *, code: str) -> InvalidRequest:
    """The field is `text.format` also where the guide comes from `nvext`, or from a tool that has to be called."""
    return InvalidRequest(message, field="text.format", code=code)
