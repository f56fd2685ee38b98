"""Rejects parameters of the other API, and names the parameter to use instead.

Programs and people that know one of the two APIs write its names in the other. Without the check such a request is
often rejected for another reason, such as a missing `input` beside a given `messages`.
"""

from __future__ import annotations

from collections.abc import Mapping

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object

IN_RESPONSES: Mapping[str, str] = {
    "messages": "'input'",
    "system": "'instructions'",
    "max_tokens": "'max_output_tokens'",
    "max_completion_tokens": "'max_output_tokens'",
    "reasoning_effort": "'reasoning.effort'",
    "verbosity": "'text.verbosity'",
    "functions": "'tools'",
    "function_call": "'tool_choice'",
    "logprobs": "'include' with 'message.output_text.logprobs'",
    "response_format": "'text.format', with 'type', 'name', 'schema' and 'strict' side by side",
}
"""Parameters of chat completions, and for each the parameter of a create request."""

IN_CHAT: Mapping[str, str] = {
    "input": "'messages'",
    "instructions": "'messages' with a message of the role 'developer'",
    "prompt": "'messages'",
    "max_output_tokens": "'max_completion_tokens'",
    "text": "'response_format' or 'verbosity'",
    "reasoning": "'reasoning_effort'",
    "include": "'logprobs'",
    "previous_response_id": "'messages' with the whole conversation",
    "conversation": "'messages' with the whole conversation",
}
"""Parameters of a create request, and for each the parameter of chat completions."""


def reject(given: Object, replacements: Mapping[str, str]) -> None:
    """Raises InvalidRequest for the first parameter that is in the table `replacements`."""
    for name in given:
        if name in replacements:
            message = f"Unknown parameter: '{name}'. In this API, use {replacements[name]}."
            raise InvalidRequest(message, field=name, code="unknown_parameter")
