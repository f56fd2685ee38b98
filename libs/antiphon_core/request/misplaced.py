"""Parameters of the other API: a request that has one is told where its like is set.

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
}
"""Parameters that a create request does not have, and what does the same there."""

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
"""Parameters that a chat request does not have, and what does the same there."""


def reject(given: Object, likes: Mapping[str, str]) -> None:
    """Raises InvalidRequest, with a hint, for the first parameter that is in the table `likes`."""
    for name in given:
        if name in likes:
            raise InvalidRequest(
                f"Unknown parameter: '{name}'. In this API, use {likes[name]}.", field=name, code="unknown_parameter"
            )
