"""Converts a response to a chat completion."""

from __future__ import annotations

from antiphon_core.jsons import Object

_FINISHED = {"max_output_tokens": "length", "content_filter": "content_filter"}


def completion_of(response: Object) -> Object:
    """Converts a completed or incomplete response into a chat completion."""
    return {
        "id": id_of(response["id"]),
        "object": "chat.completion",
        "created": response["created_at"],
        "model": response["model"],
        "choices": [
            {
                "index": 0,
                "message": _message(response["output"]),
                "logprobs": logprobs_of(_logprobs(response["output"])),
                "finish_reason": finish_reason_of(response, has_calls=any(map(is_call, response["output"]))),
            }
        ],
        "usage": usage_of(response["usage"]),
        "service_tier": response["service_tier"],
        "system_fingerprint": None,
    }


def id_of(response_id: str) -> str:
    """The id of a completion: the id of its response with the prefix of chat completions."""
    return "chatcmpl-" + response_id.removeprefix("resp_")


def finish_reason_of(response: Object, *, has_calls: bool) -> str:
    """The finish reason of a response, which may lack its output; `has_calls`: the output has calls of tools. An
    incomplete response never has `tool_calls`, even if it ends within a call."""
    if response["incomplete_details"] is not None:
        return _FINISHED.get(response["incomplete_details"]["reason"], "stop")
    return "tool_calls" if has_calls else "stop"


def usage_of(usage: Object) -> Object:
    return {
        "prompt_tokens": usage["input_tokens"],
        "completion_tokens": usage["output_tokens"],
        "total_tokens": usage["total_tokens"],
        "prompt_tokens_details": {"cached_tokens": usage["input_tokens_details"]["cached_tokens"]},
        "completion_tokens_details": {"reasoning_tokens": usage["output_tokens_details"]["reasoning_tokens"]},
    }


def is_call(item: Object) -> bool:
    return item["type"] in ("function_call", "custom_tool_call")


def call_of(item: Object) -> Object:
    """A call item as one of `tool_calls`."""
    if item["type"] == "custom_tool_call":
        called = {"type": "custom", "custom": {"name": item["name"], "input": item["input"]}}
    else:
        called = {"type": "function", "function": {"name": item["name"], "arguments": item["arguments"]}}
    return {"id": item["call_id"], **called}


def logprobs_of(tokens: list[Object]) -> Object | None:
    """The log probabilities of `tokens` in the form of chat completions; None if there are none."""
    return {"content": tokens, "refusal": None} if tokens else None


def _message(output: list[Object]) -> Object:
    """All output items as one message, with the reasoning in `reasoning_content`."""
    calls = [call_of(item) for item in output if is_call(item)]
    text, refusal = (_join_texts(output, "message", member) for member in ("text", "refusal"))
    reasoning = _join_texts(output, "reasoning", "text")
    return {
        "role": "assistant",
        "content": "" if text is None and refusal is None and not calls else text,
        "refusal": refusal,
        "annotations": [],
        **({"reasoning_content": reasoning} if reasoning is not None else {}),
        **({"tool_calls": calls} if calls else {}),
    }


def _join_texts(output: list[Object], item_type: str, member: str) -> str | None:
    """The joined texts of the parts that have this member, in all items of a type; None if there are none."""
    parts = [part for item in output if item["type"] == item_type for part in item.get("content", [])]
    found = [part[member] for part in parts if member in part]
    return "".join(found) if found else None


def _logprobs(output: list[Object]) -> list[Object]:
    messages = (item for item in output if item["type"] == "message")
    return [token for item in messages for part in item["content"] for token in part.get("logprobs", ())]
