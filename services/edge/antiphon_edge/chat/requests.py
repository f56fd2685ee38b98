"""Converts a chat request to a create request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from antiphon_core.jsons import Object, dumps
from antiphon_core.request.body import OUTPUT_LOGPROBS, CreateRequest
from antiphon_edge.chat.body import (
    ChatAllowedChoice,
    ChatCustomChoice,
    ChatFunctionChoice,
    ChatRequest,
    ChatSchemaFormat,
)
from antiphon_edge.chat.error_translator import ErrorTranslator
from antiphon_edge.chat.messages import as_items

_SHARED_MEMBERS = (
    "model",
    "stream",
    "temperature",
    "top_p",
    "presence_penalty",
    "frequency_penalty",
    "seed",
    "stop",
    "nvext",
    "parallel_tool_calls",
    "metadata",
    "user",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "service_tier",
)
"""Members that both requests have, with the same meaning."""


@dataclass(frozen=True, slots=True)
class ChatTurn:
    """The create request for a chat request, how to answer it, and the translation of its errors."""

    create: CreateRequest
    errors: ErrorTranslator
    is_streaming: bool
    includes_usage: bool


def as_turn(chat: ChatRequest) -> ChatTurn:
    """Converts a chat request. InvalidRequest: as for the create request, with the parameter of the chat request."""
    items = as_items(chat.messages)
    errors = ErrorTranslator(
        [each.origin for each in items],
        max_tokens="max_tokens" if chat.max_tokens is not None else "max_completion_tokens",
        tools=[tool.type for tool in chat.tools or []],
        choice=getattr(chat.tool_choice, "type", None),
    )
    body: Object = {name: getattr(chat, name) for name in _SHARED_MEMBERS} | {
        "input": [each.item for each in items],
        "store": False,
        "max_output_tokens": chat.max_completion_tokens or chat.max_tokens,
        "tools": [_tool(tool.model_dump()) for tool in chat.tools or []],
        "tool_choice": _choice(chat),
        "text": {"format": _format(chat), "verbosity": chat.verbosity},
        "reasoning": {"effort": chat.reasoning_effort},
        "include": [OUTPUT_LOGPROBS] if chat.logprobs else None,
        "top_logprobs": chat.top_logprobs,
    }
    with errors.translate_errors():
        create = CreateRequest.parse(dumps(body))
    options = chat.stream_options
    return ChatTurn(create, errors, bool(chat.stream), bool(options is not None and options.include_usage))


def _tool(tool: Object) -> Object:
    """A tool, or a tool in a choice. Chat completions nest its members in one named after the type; here it is flat."""
    inner: Object = tool.get(tool["type"], {})
    return {**inner, **_input_format(inner.get("format")), "type": tool["type"]}


def _input_format(given: Any) -> Object:
    """A grammar as the format of a custom tool's input, flat: chat completions nest it in `grammar`. Empty for
    others."""
    grammar = given.get("grammar") if isinstance(given, dict) else None
    if not isinstance(grammar, dict):
        return {}
    return {"format": {name: value for name, value in given.items() if name != "grammar"} | grammar}


def _choice(chat: ChatRequest) -> str | Object | None:
    match chat.tool_choice:
        case ChatAllowedChoice(allowed_tools=allowed):
            return {"type": "allowed_tools", "mode": allowed.mode, "tools": [_name(tool) for tool in allowed.tools]}
        case ChatFunctionChoice() | ChatCustomChoice() as named:
            return _tool(named.model_dump())
        case given:
            return given


def _name(tool: Object) -> Object:
    """A tool in a choice. An invalid one stays as it is: the create request rejects it."""
    kind = tool.get("type")
    return _tool(tool) if isinstance(kind, str) and isinstance(tool.get(kind), dict) else tool


def _format(chat: ChatRequest) -> Object | None:
    match chat.response_format:
        case None:
            return None
        case ChatSchemaFormat(json_schema=schema):
            return {**schema, "type": "json_schema"}
        case plain:
            return {"type": plain.type}
