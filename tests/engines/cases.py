"""Requests to the real servers: one for each kind of answer and of error.

The model is too small to call or to think by itself. A guide makes it write what the server's own parsers then read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Body = Mapping[str, Any]
MODEL = "smollm2"
_COMMON = {"model": MODEL, "stream": True, "stream_options": {"include_usage": True}, "temperature": 0, "seed": 1}


def _asking(text: str, max_tokens: int = 24, **members: object) -> Body:
    return {**_COMMON, "messages": [{"role": "user", "content": text}], "max_tokens": max_tokens, **members}


def _function(name: str, *, strict: bool = True, **properties: object) -> Body:
    """vLLM keeps calls to the parameters only where the function is strict."""
    closed = {"required": list(properties), "additionalProperties": False}
    parameters = {"type": "object", "properties": properties, **closed}
    return {"type": "function", "function": {"name": name, "strict": strict, "parameters": parameters}}


def _named(name: str) -> Body:
    return {"type": "function", "function": {"name": name}}


def _schema(property_type: str) -> Body:
    schema = {"type": "object", "properties": {"age": {"type": property_type}}, "required": ["age"]}
    return {"type": "json_schema", "json_schema": {"name": "person", "schema": schema}}


CALL_OPENERS = "<tool_call>\n" * 30
"""An input that the model goes on with by opening a call. The grammar of a call that llama.cpp forces lets any text
come first, and only a model that would call by itself leaves that text soon."""

WEATHER, TIME = _function("get_weather", city={"type": "string", "maxLength": 12}), _function("get_time")
_IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
_REPEATED = "lorem ipsum dolor " * 60

CASES: Mapping[str, Body] = {
    "text": _asking("What is the capital of France?"),
    "length": _asking("Tell a long story.", 6),
    "stop": _asking("What is the capital of France?", stop=[" capital"]),
    "schema": _asking("A person.", 40, response_format=_schema("integer")),
    "logprobs": _asking("Say hi.", 4, logprobs=True, top_logprobs=1),
    "call-named": _asking("Weather in Rome?", 60, tools=[WEATHER], tool_choice=_named("get_weather")),
    "call-required": _asking("Weather in Rome?", 60, tools=[WEATHER, TIME], tool_choice="required"),
    "call-no-arguments": _asking("Time?", 60, tools=[TIME], tool_choice=_named("get_time")),
    "cached-first": _asking(_REPEATED, 4),
    "cached-second": _asking(_REPEATED, 4),
    "error-context": _asking("word " * 5000, 8),
    "error-schema": _asking("Hi", 4, response_format=_schema("integr")),
    "error-image": _asking("", 4, messages=[{"role": "user", "content": [{"type": "text", "text": "?"}, _IMAGE]}]),
}
"""The cases of every server."""

_CALLS = (
    r'Sure\.\n<tool_call>\n\{"name": "get_weather", "arguments": \{"city": "Rome"\}\}\n</tool_call>\n'
    r'<tool_call>\n\{"name": "get_time", "arguments": \{\}\}\n</tool_call>'
)
_THOUGHT = r"<think>\n[a-z ]{8,24}\n</think>\n\n[a-z ]{4,12}\."
_GRAMMAR = r'root ::= "<think>\n" [a-z ]{8,24} "\n</think>\n\n" [a-z ]{4,12} "."'
_THINKING = {"chat_template_kwargs": {"enable_thinking": True}}

ONLY_VLLM: Mapping[str, Body] = {
    "reasoning": _asking("Think.", 60, **_THINKING, structured_outputs={"regex": _THOUGHT}),
    "calls-parallel": _asking(
        "Weather in Rome and time?",
        90,
        tools=[_function("get_weather", strict=False, city={"type": "string"}), _function("get_time", strict=False)],
        tool_choice="auto",
        structured_outputs={"regex": _CALLS},
    ),
    "error-model": {**_asking("Hi", 4), "model": "nope"},
    "error-parameter": {**_asking("Hi", 4), "temperature": -3},
    "error-length": _asking("Hi", 100_000),
    "error-tool": _asking("Hi", 4, tools=[WEATHER], tool_choice=_named("nope")),
}
"""Where llama.cpp gives no error, and what its grammar cannot be combined with."""

ONLY_LLAMACPP: Mapping[str, Body] = {
    "reasoning": _asking("Think.", 60, **_THINKING, grammar=_GRAMMAR),
    "call-required": _asking(CALL_OPENERS, 40, tools=[WEATHER], tool_choice="required", parallel_tool_calls=False),
    "call-no-arguments": _asking(CALL_OPENERS, 32, tools=[TIME], tool_choice="required"),
    "calls-parallel": _asking(CALL_OPENERS, 90, tools=[WEATHER, TIME], tool_choice="required"),
    "error-grammar-and-tools": _asking("Hi", 4, tools=[WEATHER], grammar=_GRAMMAR),
}
"""Calls that are not named: llama.cpp ignores a `tool_choice` that names a function. What it thinks with, and a request
that it alone rejects."""
