"""Errors name the chat parameters that the client sent."""

from __future__ import annotations

import pytest

from antiphon_core.errors import ContextLengthExceeded, InvalidRequest, ModelNotFound
from antiphon_edge.chat.error_translator import ErrorTranslator

TRANSLATOR = ErrorTranslator(
    ["messages[0]", "messages[1]", "messages[1].tool_calls[0]"],
    max_tokens="max_tokens",
    tools=["function", "custom"],
    choice="allowed_tools",
)


@pytest.mark.parametrize(
    ("field", "becomes"),
    [
        ("input[0].content[2].image_url", "messages[0].content[2]"),
        ("input[1].content", "messages[1].content"),
        ("input[1].output[1]", "messages[1].content[1]"),
        ("input[2].arguments", "messages[1].tool_calls[0]"),
        ("input[2]", "messages[1].tool_calls[0]"),
        ("input[9]", "input[9]"),
        ("input", "messages"),
        ("max_output_tokens", "max_tokens"),
        ("tools[0].parameters", "tools[0].function.parameters"),
        ("tools[1].name", "tools[1].custom.name"),
        ("tools[1].type", "tools[1].type"),
        ("tools", "tools"),
        ("text.format", "response_format"),
        ("text.format.type", "response_format.type"),
        ("text.format.schema.properties.a", "response_format.json_schema.schema.properties.a"),
        ("text.verbosity", "verbosity"),
        ("reasoning.effort", "reasoning_effort"),
        ("include", "logprobs"),
        ("tools[1].format.definition", "tools[1].custom.format.grammar.definition"),
        ("tools[1].format.type", "tools[1].custom.format.type"),
        ("tool_choice.tools[0]", "tool_choice.allowed_tools.tools[0]"),
        ("tool_choice", "tool_choice"),
        ("model", "model"),
    ],
)
def test_field_of_an_error_becomes_the_chat_parameter(field: str, becomes: str) -> None:
    error = TRANSLATOR.translate(InvalidRequest(f"Wrong: '{field}'.", field=field, code="invalid_value"))
    assert (error.field, error.code, error.message) == (becomes, "invalid_value", f"Wrong: '{becomes}'.")


def test_errors_keep_their_class_and_their_facts() -> None:
    with pytest.raises(ContextLengthExceeded) as caught, TRANSLATOR.translate_errors():
        raise ContextLengthExceeded.of(input_tokens=3, context_length=2)
    assert (caught.value.field, caught.value.facts["input_tokens"]) == ("messages", "3")
    with pytest.raises(ModelNotFound), TRANSLATOR.translate_errors():
        raise ModelNotFound.of("x")


def test_error_without_a_field_is_unchanged() -> None:
    error = InvalidRequest("No.")
    assert TRANSLATOR.translate(error) is error
