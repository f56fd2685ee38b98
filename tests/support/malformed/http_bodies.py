"""Valid bodies of requests to every route that takes one, which other modules damage."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Ids = Mapping[str, Sequence[str]]
Body = dict[str, Any]

_SCHEMA: Body = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "at": {"type": "array", "items": {"type": "number"}}},
    "required": ["city", "at"],
    "additionalProperties": False,
}
_FUNCTION: Body = {"type": "function", "name": "f", "description": "d", "parameters": _SCHEMA, "strict": True}
_CUSTOM: Body = {"type": "custom", "name": "c", "format": {"type": "grammar", "syntax": "regex", "definition": "a+"}}
_SEARCH: Body = {"type": "tool_search", "execution": "client", "description": "d", "parameters": _SCHEMA}
_PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
    "gg=="
)
_TEXT: Body = {"type": "input_text", "text": "hi"}
_CALLS: list[Body] = [
    {"type": "function_call", "call_id": "1", "name": "f", "arguments": '{"city":"Rome","at":[1]}'},
    {"type": "function_call_output", "call_id": "1", "output": [_TEXT]},
    {"type": "custom_tool_call", "call_id": "2", "name": "c", "input": "aa"},
    {"type": "custom_tool_call_output", "call_id": "2", "output": "a"},
    {"type": "shell_call", "call_id": "3", "action": {"commands": ["ls"], "timeout_ms": 10}},
    {
        "type": "shell_call_output",
        "call_id": "3",
        "output": [{"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}],
    },
    {
        "type": "apply_patch_call",
        "call_id": "4",
        "status": "completed",
        "operation": {"type": "delete_file", "path": "a"},
    },
    {"type": "apply_patch_call_output", "call_id": "4", "status": "completed", "output": "done"},
    {"type": "computer_call", "call_id": "5", "actions": [{"type": "click", "x": 1, "y": 2, "button": "left"}]},
    {"type": "computer_call_output", "call_id": "5", "output": {"type": "computer_screenshot", "image_url": _PIXEL}},
    {"type": "tool_search_call", "call_id": "6", "execution": "client", "arguments": {"query": "a"}},
    {
        "type": "tool_search_output",
        "call_id": "6",
        "execution": "client",
        "tools": [{"type": "namespace", "name": "n", "tools": [_FUNCTION | {"defer_loading": True}]}],
    },
]
_ITEMS: list[Body] = [
    {"role": "developer", "content": "be brief"},
    {"type": "message", "role": "user", "content": [_TEXT, {"type": "input_image", "image_url": _PIXEL}]},
    {
        "role": "user",
        "content": [{"type": "input_file", "filename": "a.txt", "file_data": "data:text/plain;base64,aGk="}],
    },
    {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]},
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "v1.k.AAAA"},
    {"type": "item_reference", "id": "msg_1"},
    {"type": "compaction", "encrypted_content": "v1.k.AAAA"},
    {"type": "web_search_call", "id": "ws_1", "status": "completed"},
]


def _create(ids: Ids) -> list[Body]:
    plain: Body = {"model": "m", "input": "hi", "store": False}
    last = ids["responses"][0]
    return [
        plain,
        plain | {"stream": True, "stream_options": {"include_obfuscation": False}},
        plain | {"input": _ITEMS[:4], "model": "seer", "truncation": "auto", "metadata": {"a": "b"}},
        plain | {"input": _ITEMS, "include": ["reasoning.encrypted_content"]},
        plain | {"input": _CALLS, "tools": [_FUNCTION, _CUSTOM, {"type": "shell"}, {"type": "apply_patch"}]},
        plain | {"tools": [_CUSTOM | {"defer_loading": True}, _SEARCH], "tool_choice": {"type": "tool_search"}},
        plain | {"tools": [_FUNCTION], "tool_choice": {"type": "function", "name": "f"}, "parallel_tool_calls": False},
        plain | {"text": {"format": {"type": "json_schema", "name": "s", "schema": _SCHEMA, "strict": True}}},
        plain
        | {"temperature": 0.5, "top_p": 0.9, "max_output_tokens": 20, "stop": ["a"], "seed": 1, "nvext": {"top_k": 3}},
        plain | {"reasoning": {"effort": "low", "summary": "auto"}, "user": "u", "prompt_cache_key": "k"},
        plain | {"previous_response_id": last, "store": True, "instructions": "x"},
        plain | {"conversation": {"id": ids["conversations"][0]}, "store": True},
        plain | {"background": True, "store": True},
        plain | {"prompt": {"id": ids["prompts"][0], "version": "1", "variables": {"word": "a", "x": _TEXT}}},
        plain | {"context_management": [{"type": "compaction", "compact_threshold": 1_000}], "store": True},
        plain | {"previous_response": {"id": last, "object": "response", "output": [], "status": "completed"}},
    ]


def _count(ids: Ids) -> list[Body]:
    return [{"model": "m", "input": _ITEMS[:2], "tools": [_FUNCTION], "previous_response_id": ids["responses"][0]}]


def _compact(ids: Ids) -> list[Body]:
    return [{"model": "m", "input": _CALLS[:2]}, {"model": "m", "previous_response_id": ids["responses"][0]}]


def _chat(_ids: Ids) -> list[Body]:
    call: Body = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages: list[Body] = [
        {"role": "system", "content": "brief"},
        {
            "role": "user",
            "content": [{"type": "text", "text": "hi"}, {"type": "image_url", "image_url": {"url": _PIXEL}}],
        },
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "a"},
        {"role": "user", "content": "hi"},
    ]
    tool: Body = {"type": "function", "function": {"name": "f", "parameters": _SCHEMA, "strict": True}}
    form: Body = {"type": "json_schema", "json_schema": {"name": "s", "schema": _SCHEMA}}
    plain: Body = {"model": "m", "messages": messages[-1:], "max_tokens": 9}
    return [
        plain,
        plain | {"messages": messages, "model": "seer", "tools": [tool], "tool_choice": "auto"},
        plain | {"stream": True, "stream_options": {"include_usage": True}, "logprobs": True, "top_logprobs": 2},
        plain | {"response_format": form, "n": 1, "stop": ["x"], "seed": 3, "user": "u"},
    ]


_PROMPT: Body = {"role": "user", "content": [{"type": "input_text", "text": "Say {{word}}."}]}

BODIES: Mapping[str, Callable[[Ids], list[Body]]] = {
    "CreateRequest": _create,
    "CountRequest": _count,
    "CompactRequest": _compact,
    "ChatRequest": _chat,
    "CreateConversation": lambda _ids: [{"metadata": {"a": "b"}, "items": [*_ITEMS[:4], *_CALLS]}, {}],
    "UpdateConversation": lambda _ids: [{"metadata": {"a": "b"}}, {"metadata": None}],
    "AddItems": lambda _ids: [{"items": _ITEMS[:4]}, {"items": _CALLS}],
    "PutPrompt": lambda _ids: [{"instructions": "Be {{word}}."}, {"instructions": "x", "input": [_PROMPT]}],
    "ForkSession": lambda ids: [{}, {"up_to_response_id": ids["responses"][0], "new_session_id": "s"}],
}
"""The bodies by the name of their schema in the table of operations."""
