"""Prompts of gpt-oss, in the format that its models were trained on: https://cookbook.openai.com/articles/openai-harmony.

The tokens are exactly those of openai-harmony (tests/golden/harmony). The chat template that comes with the models
loses parts of a conversation: it renders only the first of parallel calls, renders a preamble before a call as
reasoning or rejects it, leaves out later developer messages, and fails on a tool without a description
(docs/adr/0026-harmony-without-a-template.md).

    system        identity of the model, date, reasoning effort, channels
    developer     instructions, and the tools as a namespace of TypeScript; later instructions where they occur
    user          the user's text
    assistant     analysis, commentary before calls, calls, final
    functions.f   the result of a call
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import takewhile
from typing import Any

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object
from antiphon_translator.conversation import Call, Conversation, Message
from antiphon_translator.templates.typescript import type_of

_EFFORT = "reasoning_effort"
_DEVELOPERS = ("system", "developer")


class HarmonyTemplate:
    """The prompt writer of gpt-oss, in place of a chat template."""

    variables: Collection[str] = frozenset({_EFFORT})
    literals: Collection[str] = ()  # no text here ends with the beginning of a control token; a test checks that
    image_mark = ""  # these models see no images

    def render(self, conversation: Conversation, *, now_s: int, switches: Mapping[str, Any] | None = None) -> str:
        """The prompt, up to where the model continues. InvalidRequest: a tool's schema is nested too deeply."""
        effort = (switches or {}).get(_EFFORT, "medium")
        try:
            return "".join(_prompt(conversation, now_s, effort))
        except RecursionError as error:
            raise InvalidRequest("A tool's parameters are nested too deeply.", field="tools") from error


def _prompt(conversation: Conversation, now_s: int, effort: str) -> Iterator[str]:
    messages, tools = conversation.messages, conversation.tools
    first = list(takewhile(lambda message: message.role in _DEVELOPERS, messages))
    yield _block("system", _system(now_s, effort, has_tools=bool(tools)))
    yield from _developer(first, tools)
    unfinished = messages[-1:] if conversation.continues_last else ()
    finished = messages[len(first) : len(messages) - len(unfinished)]
    last_final = max((index for index, message in enumerate(finished) if _is_final(message)), default=-1)
    for index, message in enumerate(finished):
        yield from _render_message(message, with_reasoning=index > last_final)
    open_message = "".join(part for message in unfinished for part in _assistant(message, with_reasoning=True))
    yield open_message.removesuffix("<|end|>") or "<|start|>assistant"


# ---- messages ----


def _system(now_s: int, effort: str, *, has_tools: bool) -> str:
    date = datetime.fromtimestamp(now_s, UTC).strftime("%Y-%m-%d")
    calls = "\nCalls to these tools must go to the commentary channel: 'functions'." if has_tools else ""
    return (
        "You are ChatGPT, a large language model trained by OpenAI.\n"
        f"Knowledge cutoff: 2024-06\nCurrent date: {date}\n\n"
        f"Reasoning: {effort}\n\n"
        f"# Valid channels: analysis, commentary, final. Channel must be included for every message.{calls}"
    )


def _developer(messages: Iterable[Message], tools: Sequence[Object] = ()) -> Iterator[str]:
    instructions = "\n\n".join(message.text for message in messages)
    sections = ["# Instructions", instructions] if instructions else []
    if tools:
        functions = "\n".join(line for tool in tools for line in _function(tool["function"]))
        sections += ["# Tools", f"## functions\n\nnamespace functions {{\n\n{functions}\n}} // namespace functions"]
    if sections:
        yield _block("developer", "\n\n".join(sections))


def _function(function: Object) -> Iterator[str]:
    yield from (f"// {line}" for line in _lines(function.get("description") or ""))
    parameters = function.get("parameters") or {}
    takes = f"_: {type_of(parameters)}" if _takes_any(parameters) else ""
    yield f"type {function['name']} = ({takes}) => any;\n"


def _lines(text: str) -> list[str]:
    """Splits a text at line feeds only. `str.splitlines` would split at other characters, too."""
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")] if text else []


def _takes_any(parameters: Object) -> bool:
    """Whether a function has parameters. One without any is written as `()`, not with an empty object."""
    is_object = parameters.get("type", "object") == "object"
    return not is_object or bool(parameters.get("properties") or parameters.get("additionalProperties"))


def _render_message(message: Message, *, with_reasoning: bool) -> Iterator[str]:
    match message.role:
        case "assistant":
            yield from _assistant(message, with_reasoning=with_reasoning)
        case "tool":
            yield _block(f"functions.{message.name} to=assistant<|channel|>commentary", message.text)
        case "user":
            yield _block("user", message.text)
        case _:
            yield from _developer([message])


def _assistant(message: Message, *, with_reasoning: bool) -> Iterator[str]:
    if message.reasoning and with_reasoning:
        yield _block("assistant<|channel|>analysis", message.reasoning)
    if message.text or (message.parts and not message.calls):
        channel = "final" if _is_final(message) else "commentary"
        yield _block(f"assistant<|channel|>{channel}", message.text)
    yield from map(_call, message.calls)


def _is_final(message: Message) -> bool:
    """Whether a message is a final answer. Reasoning before the last final answer is left out of the prompt."""
    return message.role == "assistant" and bool(message.parts) and not (message.calls or message.is_commentary)


def _call(call: Call) -> str:
    header = f"assistant to=functions.{call.name}<|channel|>commentary <|constrain|>json"
    return f"<|start|>{header}<|message|>{json.dumps(call.arguments, ensure_ascii=False)}<|call|>"


def _block(header: str, text: str) -> str:
    return f"<|start|>{header}<|message|>{text}<|end|>"
