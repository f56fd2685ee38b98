from __future__ import annotations

import pytest

from antiphon_translator.engines.guide_errors import of_text

SERVER = "The server of model 'm'"
NOT_SET_UP = (
    "Encountered an error when fetching new request: [TensorRT-LLM][ERROR] Assertion failed: Request is specified with "
    "GuidedDecodingParams, but GuidedDecoder is not setup. Please provide a valid GuidedDecodingConfig",
    "Guided decoding is not enabled for this server",
)
NO_GRAMMAR = (
    "guided_decoding_guide is not a valid regex: unbalanced",
    "ValueError: Grammar error: Unknown format: uri",
    "The provided JSON schema contains features not supported by xgrammar.",
    "ValueError: LLGuidance matcher error: Unimplemented keys",
    "{'code': 400, 'message': 'failed to parse grammar', 'type': 'invalid_request_error'}",
    "JSON schema conversion failed: Unrecognized schema",
    "Unable to generate parser for this template. Automatic parser generation failed: JSON schema error at "
    "#/properties/x: unrecognized type integr",
)
OTHERS = ("", "out of paper", "unexpected inference input 'x' for model 'y'", "model grammarian is not ready")


@pytest.mark.parametrize("text", NOT_SET_UP)
def test_guide_on_a_server_without_guided_decoding_is_unsupported(text: str) -> None:
    error = of_text(text, server=SERVER)
    assert error is not None
    assert (error.field, error.code) == ("text.format", "unsupported_parameter")
    assert error.message == "The server of model 'm' has no guided decoding set up."


@pytest.mark.parametrize("text", NO_GRAMMAR)
def test_schema_without_a_grammar_is_an_invalid_value(text: str) -> None:
    error = of_text(text, server=SERVER)
    assert error is not None
    assert (error.field, error.code) == ("text.format", "invalid_value")
    assert error.message.startswith("The server of model 'm' cannot compile a grammar from the requested format.")


@pytest.mark.parametrize("text", OTHERS)
def test_other_error_texts_are_no_guide_errors(text: str) -> None:
    assert of_text(text, server=SERVER) is None
