"""How clients are told of an error: as the body of an answer, and as the `error` of a response that failed."""

from __future__ import annotations

from antiphon_core.errors import AntiphonError, InvalidRequest, row_of

CODES_IN_RESPONSES = frozenset(
    {
        "server_error",
        "rate_limit_exceeded",
        "invalid_prompt",
        "invalid_image",
        "invalid_image_format",
        "invalid_base64_image",
        "invalid_image_url",
        "image_too_large",
        "image_too_small",
        "image_parse_error",
        "image_file_too_large",
        "unsupported_image_media_type",
        "empty_image_file",
        "failed_to_download_image",
        "image_file_not_found",
        "context_length_exceeded",
    }
)
"""The values of `error.code` in a response: OpenAI's closed list as far as it can happen here. The last one is not on
that list, but OpenAI sends it and Codex acts on it."""

_SHOWN = ("code", "retry_after_ms")  # the facts that an answer over HTTP is made of


def envelope(error: AntiphonError) -> dict[str, dict[str, str | None]]:
    """The body of an HTTP error answer: OpenAI's envelope with all four keys."""
    return {
        "error": {
            "message": error.message,
            "type": row_of(error).openai_type,
            "param": error.field,
            "code": error.code,
        }
    }


def code_in_response(error: AntiphonError) -> str:
    """The code of an error within a failed response: its own `code` if OpenAI's list has it."""
    if error.code in CODES_IN_RESPONSES:
        return str(error.code)
    return "invalid_prompt" if isinstance(error, InvalidRequest) else "server_error"


def cause_of(error: AntiphonError) -> dict[str, str]:
    """The parts of an error that are stored beside its message, so that `revive` can restore the error."""
    facts = {"field": error.field} | {name: error.facts.get(name) for name in _SHOWN}
    return {"reason": error.reason} | {name: value for name, value in facts.items() if value is not None}
