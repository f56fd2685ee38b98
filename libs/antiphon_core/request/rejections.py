"""Parameters that are rejected, each with the reason and what to use instead, so that none is ignored.

* Parameters of the other API. Programs and people that know one of the two APIs write its names in the other. Without
  the check such a request is often rejected for another reason, such as a missing `input` beside a given `messages`.
* Parameters that only the server sets.
* Parameters that exclude each other.
* Features of the API that this server does not have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object
from antiphon_core.request.hosted_tools import NOTE

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

SERVER_SET: Mapping[str, str] = {
    NOTE: "",
    "cache_salt": " The server derives the salt of cached prompts from your API key.",
}
"""Members that only the server sets, each with the reason. A client that chose its salt could share the cache of
another tenant, or have a cache of its own for each request."""


def reject_misplaced(given: Object, replacements: Mapping[str, str]) -> None:
    """Raises InvalidRequest for the first parameter that is in the table `replacements`."""
    for name in given:
        if name in replacements:
            message = f"Unknown parameter: '{name}'. In this API, use {replacements[name]}."
            raise InvalidRequest(message, field=name, code="unknown_parameter")


def reject_chat_spelling(text: object) -> None:
    """InvalidRequest: the members of `text.format` are nested as in chat completions."""
    asked = text.get("format") if isinstance(text, dict) else None
    if isinstance(asked, dict) and "json_schema" in asked:
        raise InvalidRequest(
            "Unknown parameter: 'text.format.json_schema'. In the Responses API its members ('name', 'schema', "
            "'strict', 'description') stand in 'text.format' itself.",
            field="text.format.json_schema",
            code="unknown_parameter",
        )


def reject_server_set(given: Object) -> None:
    """Raises InvalidRequest for the first member that only the server sets."""
    for name, reason in SERVER_SET.items():
        if name in given:
            raise InvalidRequest(f"Unknown parameter: '{name}'.{reason}", field=name, code="unknown_parameter")


def reject_two_histories(**given: object) -> None:
    """Raises InvalidRequest if more than one of the members that name a history is given."""
    if len(given) - [*given.values()].count(None) > 1:
        named = [f"'{name}'" for name, value in given.items() if value is not None]
        raise InvalidRequest(f"{' and '.join(named)} exclude each other.", code="mutually_exclusive_parameters")


def anything(_: object) -> bool:
    """For `Unserved.asked`: every value asks for the feature, even an empty one."""
    return True


@dataclass(frozen=True, slots=True)
class Unserved:
    """A member of requests for an unsupported feature, and the error for it. `field` is the path of the member; `asked`
    returns whether a value asks for the feature, rather than for the default."""

    field: str
    asked: Callable[[Any], bool]
    message: str
    code: str = "unsupported_parameter"


def reject_unserved(features: Iterable[Unserved], request: object, *, within: str = "") -> None:
    """Raises InvalidRequest for the first of `features` that the request, or the part of it at the path `within`, asks
    for."""
    for feature in features:
        name, *rest = feature.field.split(".")
        value = getattr(request, name)
        for name in rest:  # of few requests: most have no such member at all
            value = getattr(value, name) if value is not None else None
        if value is not None and feature.asked(value):
            field = f"{within}.{feature.field}" if within else feature.field
            raise InvalidRequest(feature.message, field=field, code=feature.code)
