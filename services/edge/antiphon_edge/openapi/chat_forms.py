"""The answers of chat completions, as JSON schemas."""

from __future__ import annotations

from antiphon_core.jsons import Object
from antiphon_edge.operations.forms import (
    INTEGER,
    STRING,
    any_of,
    array,
    const,
    frame,
    nullable,
    one_of,
    record,
    schema_reference,
)

_LOGPROBS = nullable(record({"content": array({"type": "object"})}))
_FINISH_REASON = one_of(["stop", "length", "tool_calls", "content_filter"])
_COMMON: Object = {"id": STRING, "created": INTEGER, "model": STRING, "service_tier": STRING}

SCHEMAS: dict[str, Object] = {
    "ChatUsage": record(
        {
            "prompt_tokens": INTEGER,
            "completion_tokens": INTEGER,
            "total_tokens": INTEGER,
            "prompt_tokens_details": record({"cached_tokens": INTEGER}),
            "completion_tokens_details": record({"reasoning_tokens": INTEGER}),
        }
    ),
    "ChatToolCall": {
        "anyOf": [
            record(
                {
                    "id": STRING,
                    "type": const("function"),
                    "function": record({"name": STRING, "arguments": STRING}),
                }
            ),
            record({"id": STRING, "type": const("custom"), "custom": record({"name": STRING, "input": STRING})}),
        ]
    },
    "ChatAnswer": record(
        {"role": const("assistant"), "content": nullable(STRING), "refusal": nullable(STRING)},
        {"reasoning_content": STRING, "tool_calls": array(schema_reference("ChatToolCall"))},
    ),
    "ChatCompletion": record(
        _COMMON
        | {
            "object": const("chat.completion"),
            "choices": array(
                record(
                    {
                        "index": INTEGER,
                        "message": schema_reference("ChatAnswer"),
                        "logprobs": _LOGPROBS,
                        "finish_reason": _FINISH_REASON,
                    }
                )
            ),
            "usage": schema_reference("ChatUsage"),
        }
    ),
    "ChatDelta": record(
        {},
        {
            "role": const("assistant"),
            "content": STRING,
            "reasoning_content": STRING,
            "tool_calls": array(
                record(
                    {"index": INTEGER},
                    {"id": STRING, "type": STRING, "function": {"type": "object"}, "custom": {"type": "object"}},
                )
            ),
        },
    ),
    "ChatChunk": record(
        _COMMON
        | {
            "object": const("chat.completion.chunk"),
            "choices": array(
                record(
                    {
                        "index": INTEGER,
                        "delta": schema_reference("ChatDelta"),
                        "logprobs": _LOGPROBS,
                        "finish_reason": nullable(_FINISH_REASON),
                    }
                )
            ),
        },
        {"usage": nullable(schema_reference("ChatUsage"))},
    ),
    "ChatStreamed": any_of("ChatChunk", "Error"),
    "ChatFrame": frame("ChatStreamed", "A chunk, or an error."),
}
