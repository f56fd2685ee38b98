"""The two forms in which clients get an error: the body of an HTTP answer, and the `error` of a failed response."""

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
"""The values of `error.code` in a response: those of OpenAI's closed list that can occur here, and
context_length_exceeded, which is not on that list although OpenAI sends it and Codex acts on it."""

_SHOWN = ("code", "retry_after_ms")  # the facts that appear in an HTTP answer


def envelope(error: AntiphonError) -> dict[str, dict[str, str | None]]:
    """The body of an HTTP error answer: OpenAI's error object with all four keys."""
    return {
        "error": {
            "message": error.message,
            "type": row_of(error).openai_type,
            "param": error.field,
            "code": error.code,
        }
    }


def code_in_response(error: AntiphonError) -> str:
    """The `error.code` of a failed response: the error's own code if CODES_IN_RESPONSES has it, else a general one."""
    if error.code in CODES_IN_RESPONSES:
        return str(error.code)
    return "invalid_prompt" if isinstance(error, InvalidRequest) else "server_error"


def cause_of(error: AntiphonError) -> dict[str, str]:
    """The parts of an error that are stored beside its message, so that `revive` can restore the error."""
    facts = {"field": error.field} | {name: error.facts.get(name) for name in _SHOWN}
    return {"reason": error.reason} | {name: value for name, value in facts.items() if value is not None}
