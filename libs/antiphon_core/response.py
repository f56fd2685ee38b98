"""The response object: how it looks at birth, at its end, and between storage and the client.

All 31 members that Open Responses requires are there from the first event on, numbers never null. The store keeps a
response in two parts, the object without `output` and the output items, because history is made of items alone.
"""

from __future__ import annotations

from typing import Any

from antiphon_core.error_forms import cause_of, code_in_response
from antiphon_core.errors import AntiphonError, InternalError, revive
from antiphon_core.jsons import Object, compact, with_member
from antiphon_core.ports.store import Status

_CACHING = {"mode": "implicit"}
"""How engines cache, whatever a request hints at. None promises a lifetime."""
_NOT_TOLD = ("context", "mode", "generate_summary")
"""Members of `reasoning` that the response does not repeat: the chat template decides about them."""


_REPEATED: Object = {
    "previous_response_id": None,
    "instructions": None,
    "background": False,
    "store": True,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "temperature": 1.0,
    "top_p": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "top_logprobs": 0,
    "truncation": "disabled",
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "text": {},
    "reasoning": {},
    "metadata": {},
    "service_tier": "default",
    "safety_identifier": None,
    "prompt_cache_key": None,
    "prompt_cache_retention": None,
    "user": None,
}
"""The parameters that every response repeats, in their order, and their values where a request leaves them out."""

_REPEATED_IF_GIVEN = ("prompt", "prompt_cache_options", "dropped_tools", "conversation")


def skeleton(parameters: Object, *, response_id: str, created_at: int) -> Object:
    """A response that has just been created. `parameters` are those of the request, validated; `created_at` is in
    Unix seconds."""
    asked = {name: value for name, value in parameters.items() if value is not None}
    return {
        "id": response_id,
        "object": "response",
        "created_at": created_at,
        "completed_at": None,
        "status": Status.IN_PROGRESS.value,
        "error": None,
        "incomplete_details": None,
        "model": asked["model"],
        "output": [],
        "usage": None,
        **_repeated(asked),
    }


def _repeated(asked: Object) -> Object:
    """The parameters as the response repeats them, with all members that clients look for."""
    repeated: Object = {name: asked.get(name, default) for name, default in _REPEATED.items()}
    repeated["tools"] = [_declared(tool) for tool in repeated["tools"]]
    repeated["text"] = _text(repeated["text"])
    repeated["reasoning"] = _reasoning(repeated["reasoning"])
    repeated["metadata"] = dict(repeated["metadata"])
    repeated["service_tier"] = "default"
    repeated["prompt_cache_retention"] = "in_memory" if repeated["prompt_cache_retention"] else None
    given = asked | {"prompt_cache_options": _CACHING} if "prompt_cache_options" in asked else asked
    return repeated | {name: given[name] for name in _REPEATED_IF_GIVEN if name in given}


def _declared(tool: Object) -> Object:
    """A tool with all members that clients look for."""
    if tool["type"] != "function":
        return tool
    return {"description": None, "parameters": None, "strict": None} | tool


def _reasoning(asked: Object) -> Object:
    """How the model is to think, without the hints that change nothing."""
    told = {name: value for name, value in asked.items() if name not in _NOT_TOLD}
    return {"effort": None, "summary": None} | told


def _text(asked: Object) -> Object:
    """How the model is to answer, with all members that clients look for. A verbosity is a hint that no model here can
    be given, so the response says `medium`, as of any other."""
    given = {"format": {"type": "text"}} | _without_null(asked) | {"verbosity": "medium"}
    if given["format"]["type"] == "json_schema":
        given["format"] = {"description": None, "strict": False} | given["format"]
    return given


def usage(*, input_tokens: int, output_tokens: int, cached_tokens: int = 0, reasoning_tokens: int = 0) -> Object:
    """The `usage` member, with both detail objects in full."""
    return {
        "input_tokens": input_tokens,
        "input_tokens_details": {"cached_tokens": cached_tokens, "cache_write_tokens": 0},
        "output_tokens": output_tokens,
        "output_tokens_details": {"reasoning_tokens": reasoning_tokens},
        "total_tokens": input_tokens + output_tokens,
    }


def failed(response: Object, error: AntiphonError) -> Object:
    """The response as it ends when something broke: what it had so far, its open item marked incomplete.

    `code` is one of a closed list of OpenAI's, in which every fault of a server is server_error. `cause` is ours:
    whoever asks for the response again is told what its first caller was told."""
    told = {"code": code_in_response(error), "message": error.message, "cause": cause_of(error)}
    return _ended(response, Status.FAILED) | {"error": told}


def error_of(response: Object) -> AntiphonError:
    """The error that a failed response ended with."""
    cause = dict(response["error"].get("cause", {}))
    return revive(cause.pop("reason", InternalError.reason), response["error"]["message"], cause)


def cancelled(response: Object) -> Object:
    """The response as it ends when its caller gave it up."""
    return _ended(response, Status.CANCELLED)


def split(response: Object) -> tuple[bytes, bytes]:
    """A response as the store keeps it: (body without `output`, output items)."""
    body = {name: value for name, value in response.items() if name != "output"}
    return compact(body), compact(response["output"])


def join(body: bytes, output_items: bytes) -> bytes:
    """A stored response as the client gets it. Bytes in, bytes out."""
    return with_member(body, "output", output_items)


def _ended(response: Object, status: Status) -> Object:
    output = [
        item | {"status": "incomplete"} if item.get("status") == "in_progress" else item for item in response["output"]
    ]
    return response | {"status": status.value, "output": output}


def _without_null(member: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in member.items() if value is not None}
