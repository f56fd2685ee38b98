"""A chat request as the create request that it comes to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from antiphon_core.jsons import Object, dumps
from antiphon_core.request.body import OUTPUT_LOGPROBS, CreateRequest
from antiphon_core.request.chat import (
    ChatAllowedChoice,
    ChatCustomChoice,
    ChatFunctionChoice,
    ChatRequest,
    ChatSchemaFormat,
)
from antiphon_edge.chat.culprits import Culprits
from antiphon_edge.chat.messages import as_items

_SAME = (
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
"""Members that mean the same by the same name."""


@dataclass(frozen=True, slots=True)
class ChatTurn:
    """A chat completion as a create request, and how to answer it. `culprits` has the caller's names of parameters."""

    create: CreateRequest
    culprits: Culprits
    stream: bool
    include_usage: bool


def as_turn(chat: ChatRequest) -> ChatTurn:
    """InvalidRequest: the create request would be refused; the culprit is told by its name in chat completions."""
    placed = as_items(chat.messages)
    culprits = Culprits(
        [each.origin for each in placed],
        max_tokens="max_tokens" if chat.max_tokens is not None else "max_completion_tokens",
        tools=[tool.type for tool in chat.tools or []],
        choice=getattr(chat.tool_choice, "type", None),
    )
    body: Object = {name: getattr(chat, name) for name in _SAME} | {
        "input": [each.item for each in placed],
        "store": False,
        "max_output_tokens": chat.max_completion_tokens or chat.max_tokens,
        "tools": [_tool(tool.model_dump()) for tool in chat.tools or []],
        "tool_choice": _choice(chat),
        "text": {"format": _format(chat), "verbosity": chat.verbosity},
        "reasoning": {"effort": chat.reasoning_effort},
        "include": [OUTPUT_LOGPROBS] if chat.logprobs else None,
        "top_logprobs": chat.top_logprobs,
    }
    with culprits.named():
        create = CreateRequest.parse(dumps(body))
    options = chat.stream_options
    return ChatTurn(create, culprits, bool(chat.stream), bool(options is not None and options.include_usage))


def _tool(tool: Object) -> Object:
    """A tool, or the name of one in a choice, without the level that chat completions have between."""
    inner: Object = tool.get(tool["type"], {})
    return {**inner, **_input_format(inner.get("format")), "type": tool["type"]}


def _input_format(given: Any) -> Object:
    """The format of a custom tool's input, where it is a grammar: its members are a level deeper."""
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
    """A tool in a choice; what is none is not looked at here."""
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
