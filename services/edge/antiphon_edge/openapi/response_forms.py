"""What comes back, as JSON schemas: the response, its items, conversations, trees, models, errors.

Written once, here; tests hold real answers against it.
"""

from __future__ import annotations

from antiphon_core.jsons import Object
from antiphon_core.ports.store import Status
from antiphon_edge.openapi.forms import (
    ANY_OBJECT,
    BOOLEAN,
    INTEGER,
    NUMBER,
    STRING,
    any_of,
    array,
    const,
    mapping,
    named,
    nullable,
    one_of,
    record,
    said,
)

_ITEM_STATUS = one_of(["in_progress", "completed", "incomplete"])
_SECONDS = said(INTEGER, "Unix time in seconds.")

_PARTS: dict[str, Object] = {
    "OutputText": record(
        {
            "type": const("output_text"),
            "text": STRING,
            "annotations": array(ANY_OBJECT),
            "logprobs": array(ANY_OBJECT),
        }
    ),
    "ReasoningText": record({"type": const("reasoning_text"), "text": STRING}),
}

_OUTPUT_ITEMS: dict[str, Object] = {
    "OutputMessage": record(
        {
            "id": STRING,
            "type": const("message"),
            "role": const("assistant"),
            "status": _ITEM_STATUS,
            "content": array(named("OutputText")),
        },
        {"phase": one_of(["commentary", "final_answer"])},
    ),
    "OutputReasoning": record(
        {"id": STRING, "type": const("reasoning"), "summary": array(ANY_OBJECT)},
        {
            "status": _ITEM_STATUS,
            "content": array(named("ReasoningText")),
            "encrypted_content": said(nullable(STRING), "Sealed: only this server can open it."),
        },
    ),
    "OutputFunctionCall": record(
        {
            "id": STRING,
            "type": const("function_call"),
            "status": _ITEM_STATUS,
            "call_id": STRING,
            "name": STRING,
            "arguments": said(STRING, "JSON, as the model wrote it."),
        },
        {"namespace": STRING},
    ),
    "OutputCustomToolCall": record(
        {"id": STRING, "type": const("custom_tool_call"), "call_id": STRING, "name": STRING, "input": STRING},
        {"status": _ITEM_STATUS, "namespace": STRING},
    ),
    "OutputCompaction": record(
        {"id": STRING, "type": const("compaction"), "encrypted_content": STRING},
    ),
}

_RESPONSE: dict[str, Object] = {
    "Usage": record(
        {
            "input_tokens": INTEGER,
            "input_tokens_details": record({"cached_tokens": INTEGER}, {"cache_write_tokens": INTEGER}),
            "output_tokens": INTEGER,
            "output_tokens_details": record({"reasoning_tokens": INTEGER}),
            "total_tokens": INTEGER,
        }
    ),
    "Cause": record(
        {"reason": STRING},
        {"field": STRING, "code": STRING, "retry_after_ms": STRING},
        description="The name of the fault, the path of the culprit, and what was wrong with it.",
    ),
    "OutputItem": any_of(*_OUTPUT_ITEMS),
    "Response": record(
        {
            "id": STRING,
            "object": const("response"),
            "created_at": _SECONDS,
            "completed_at": nullable(_SECONDS),
            "status": one_of([status.value for status in Status]),
            "error": nullable(record({"code": STRING, "message": STRING}, {"cause": named("Cause")})),
            "incomplete_details": nullable(record({"reason": STRING})),
            "model": STRING,
            "output": array(named("OutputItem")),
            "usage": nullable(named("Usage")),
            "previous_response_id": nullable(STRING),
            "instructions": nullable(STRING),
            "background": BOOLEAN,
            "store": BOOLEAN,
            "max_output_tokens": nullable(INTEGER),
            "max_tool_calls": nullable(INTEGER),
            "temperature": NUMBER,
            "top_p": NUMBER,
            "presence_penalty": NUMBER,
            "frequency_penalty": NUMBER,
            "top_logprobs": INTEGER,
            "truncation": one_of(["auto", "disabled"]),
            "parallel_tool_calls": BOOLEAN,
            "tool_choice": {"anyOf": [STRING, ANY_OBJECT]},
            "tools": array(ANY_OBJECT),
            "text": record({"format": ANY_OBJECT}, {"verbosity": STRING}),
            "reasoning": record({"effort": nullable(STRING), "summary": nullable(STRING)}),
            "metadata": mapping(STRING),
            "service_tier": STRING,
            "safety_identifier": nullable(STRING),
            "prompt_cache_key": nullable(STRING),
        },
        {
            "conversation": record({"id": STRING}),
            "prompt_cache_options": record({"mode": STRING, "ttl": STRING}, {"comparison_response_id": STRING}),
            "prompt_cache_retention": nullable(STRING),
            "user": nullable(STRING),
        },
    ),
    "DeletedResponse": record({"id": STRING, "object": const("response"), "deleted": {"const": True}}),
    "Compaction": record(
        {
            "id": STRING,
            "object": const("response.compaction"),
            "created_at": _SECONDS,
            "output": said(array(ANY_OBJECT), "The next input: what others said, and the compaction of the rest."),
            "usage": named("Usage"),
        }
    ),
    "InputTokens": record({"object": const("response.input_tokens"), "input_tokens": INTEGER}),
}

_LISTS: dict[str, Object] = {
    "StoredItem": said(ANY_OBJECT, "An item of any type, as it was said, with its id."),
    "ItemList": record(
        {
            "object": const("list"),
            "data": array(named("StoredItem")),
            "first_id": nullable(STRING),
            "last_id": nullable(STRING),
            "has_more": BOOLEAN,
        }
    ),
}

_CONVERSATIONS: dict[str, Object] = {
    "Conversation": record(
        {"id": STRING, "object": const("conversation"), "created_at": _SECONDS, "metadata": mapping(STRING)}
    ),
    "DeletedConversation": record({"id": STRING, "object": const("conversation.deleted"), "deleted": {"const": True}}),
}

_TREES: dict[str, Object] = {
    "ResponseNode": record(
        {
            "id": STRING,
            "object": const("response.node"),
            "parent_id": nullable(STRING),
            "status": said(nullable(STRING), "Null for what cannot be read and only connects what can."),
            "depth": INTEGER,
            "child_count": INTEGER,
            "created_at": _SECONDS,
        }
    ),
    "NodeList": record(
        {
            "object": const("list"),
            "data": array(named("ResponseNode")),
            "next_cursor": nullable(STRING),
            "has_more": BOOLEAN,
        }
    ),
    "AddedItems": record({"id": STRING, "object": const("conversation.items")}),
    "Chain": record(
        {
            "object": const("list"),
            "data": array(any_of("Response", "DeletedResponse", "AddedItems")),
            "next_cursor": {"type": "null"},
            "has_more": {"const": False},
        },
        description="Root first.",
    ),
    "Session": record(
        {"id": STRING, "object": const("session"), "forked_from": STRING, "head_id": nullable(STRING)},
        description="A conversation, if its id begins with `conv_`.",
    ),
}

_SERVICE: dict[str, Object] = {
    "Model": record(
        {
            "id": STRING,
            "object": const("model"),
            "created": _SECONDS,
            "owned_by": STRING,
            "root": STRING,
            "max_model_len": said(INTEGER, "Tokens that prompt and answer have together."),
            "ready": BOOLEAN,
        }
    ),
    "ModelList": record({"object": const("list"), "data": array(named("Model"))}),
    "Health": record({"object": const("health.response"), "message": STRING, "status": STRING}),
    "Version": record({"release": STRING, "api": const("v1")}),
    "Error": record(
        {
            "error": record(
                {"message": STRING, "type": STRING, "param": nullable(STRING), "code": nullable(STRING)},
            )
        },
        description="`param` is the path of the culprit, `code` says what was wrong with it.",
    ),
}

SCHEMAS: dict[str, Object] = _PARTS | _OUTPUT_ITEMS | _RESPONSE | _LISTS | _CONVERSATIONS | _TREES | _SERVICE
