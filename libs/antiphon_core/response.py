"""The response object: as it is created, as it ends, and in the two parts that the store keeps.

All 31 members that Open Responses requires are present from the first event on, and its numbers are never null. The
store keeps the object without `output` apart from the output items, because histories are built from items only.
"""

from __future__ import annotations

from antiphon_core.error_forms import cause_of, code_in_response
from antiphon_core.errors import AntiphonError, InternalError, revive
from antiphon_core.jsons import Object, compact, with_member
from antiphon_core.ports.store import Status
from antiphon_core.request import prompt_cache

_NOT_REPEATED = ("context", "mode", "generate_summary")
"""Members of `reasoning` that the response does not repeat, because the chat template decides about them."""

_UNKNOWN_OUTCOME_CODE = -32_001
"""In the range of codes that JSON-RPC leaves to implementations."""

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
"""The parameters of the request that every response repeats, in this order, with their default values."""

_REPEATED_IF_GIVEN = ("prompt", "prompt_cache_options", "dropped_tools", "conversation")


def skeleton(parameters: Object, *, response_id: str, created_at: int) -> Object:
    """A response as it is created. `parameters` are the validated ones of the request; `created_at` is in Unix
    seconds."""
    return {
        "id": response_id,
        "object": "response",
        "created_at": created_at,
        "completed_at": None,
        "status": Status.IN_PROGRESS.value,
        "error": None,
        "incomplete_details": None,
        "model": parameters["model"],
        "output": [],
        "usage": None,
        **_repeat_parameters(parameters),
    }


def _repeat_parameters(parameters: Object) -> Object:
    """The parameters in the form in which the response repeats them, with all members that clients expect."""
    names = (*_REPEATED, *_REPEATED_IF_GIVEN)
    repeated = _REPEATED | {name: value for name, value in parameters.items() if value is not None and name in names}
    repeated["tools"] = list(map(_complete_tool, repeated["tools"]))
    repeated["text"] = _text(repeated["text"])
    repeated["reasoning"] = _reasoning(repeated["reasoning"])
    repeated["metadata"] = dict(repeated["metadata"])
    repeated["service_tier"] = "default"
    repeated["prompt_cache_retention"] = "in_memory" if repeated["prompt_cache_retention"] else None
    if "prompt_cache_options" in repeated:
        repeated["prompt_cache_options"] = prompt_cache.options_in_effect(
            compared_id=repeated["prompt_cache_options"].get("comparison_response_id")
        )  # a translator adds what its engine was told
    return repeated


def _complete_tool(tool: Object) -> Object:
    """A tool with all members that clients expect."""
    if tool["type"] != "function":
        return tool
    return {"description": None, "parameters": None, "strict": None} | tool


def _reasoning(asked: Object) -> Object:
    """The member `reasoning`, without the hints that change nothing."""
    repeated = {name: value for name, value in asked.items() if name not in _NOT_REPEATED}
    return {"effort": None, "summary": None} | repeated


def _text(asked: Object) -> Object:
    """The member `text`, with all members that clients expect. Verbosity cannot be passed on to any model, so the
    response always says `medium`, OpenAI's default."""
    given: Object = {"format": {"type": "text"}}
    given |= {name: value for name, value in asked.items() if value is not None}
    given["verbosity"] = "medium"
    if given["format"]["type"] == "json_schema":
        given["format"] = {"description": None, "strict": False} | given["format"]
    return given


def usage(
    *, input_tokens: int, output_tokens: int, cached_tokens: int | None = None, reasoning_tokens: int = 0
) -> Object:
    """The member `usage`, with all members of both detail objects. The tokens that were not cached are written to the
    cache. Clients require both numbers, so both are 0 where the engine reports nothing of its cache (`cached_tokens`
    None), which they are in no other case: no prompt is empty."""
    written = 0 if cached_tokens is None else input_tokens - cached_tokens
    return {
        "input_tokens": input_tokens,
        "input_tokens_details": {"cached_tokens": cached_tokens or 0, "cache_write_tokens": written},
        "output_tokens": output_tokens,
        "output_tokens_details": {"reasoning_tokens": reasoning_tokens},
        "total_tokens": input_tokens + output_tokens,
    }


def fail(response: Object, error: AntiphonError) -> Object:
    """The response after a failure, with the output so far. An open item is marked incomplete.

    `code` is one of OpenAI's closed list, in which every server fault is server_error. `cause` is an extension: later
    requests for this response get the same error as the first caller (`error_of`)."""
    described = {"code": code_in_response(error), "message": error.message, "cause": cause_of(error)}
    return _end(response, Status.FAILED) | {"error": described}


def error_of(response: Object) -> AntiphonError:
    """The error with which a failed response ended."""
    cause = dict(response["error"].get("cause", {}))
    return revive(cause.pop("reason", InternalError.reason), response["error"]["message"], cause)


def cancel(response: Object) -> Object:
    """The response after its cancellation, with the output so far."""
    return _end(response, Status.CANCELLED)


def unknown_outcome(reason: str) -> Object:
    """The error of a call of a tool server that may have run. It tells the client and the model the same."""
    message = f"The outcome of this call is unknown: {reason}. It was not repeated. Check before you call it again."
    return {"type": "mcp_protocol_error", "code": _UNKNOWN_OUTCOME_CODE, "message": message}


def split(response: Object) -> tuple[bytes, bytes]:
    """Splits a response into the parts that the store keeps: (body without `output`, output items)."""
    body = {name: value for name, value in response.items() if name != "output"}
    return compact(body), compact(response["output"])


def join(body: bytes, output_items: bytes) -> bytes:
    """Joins the parts of a stored response, without parsing them."""
    return with_member(body, "output", output_items)


def _end(response: Object, status: Status) -> Object:
    output = [_interrupted_item(item) if item.get("status") == "in_progress" else item for item in response["output"]]
    return response | {"status": status.value, "output": output}


def _interrupted_item(item: Object) -> Object:
    """An item that was in progress when its response ended. A call that a server ran may have had its effect."""
    error = {"error": unknown_outcome("the response ended before its result came")}
    return item | {"status": "incomplete"} | (error if item.get("type") == "mcp_call" else {})
