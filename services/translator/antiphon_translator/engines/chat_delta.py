"""The pieces of text, reasoning and calls in one delta of a chat completions stream.

Each member is read by itself, under all the names and in all the forms that servers give it, so that a member that
cannot be read costs nothing of the others. The standard form is a text under its standard name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from antiphon_core.errors import EngineFault
from antiphon_core.jsons import Object
from antiphon_core.limits import ENGINE_EVENT_ITEMS_MAX
from antiphon_translator.engines.chat_calls import CallPiece
from antiphon_translator.engines.lenient_json import without_surrogates
from antiphon_translator.engines.unread import UnreadReport
from antiphon_translator.parsing.segments import Reasoning, Refusal, Text

Kind = type[Text | Reasoning | Refusal]
_REASONING = (
    "reasoning_content",  # DeepSeek, SGLang, llama.cpp, older vLLM
    "reasoning",  # vLLM, OpenRouter, Ollama
    "thinking",  # proxies of Anthropic and of Ollama's own API
    "reasoning_details",  # OpenRouter, beside `reasoning` or without it
)
"""The members that hold the reasoning of a delta. They repeat each other, so the first one with a text counts."""
_OTHERS = (*_REASONING, "refusal", "tool_calls", "function_call")
"""The members that say something beside `content`."""
_TEXTS = ("text", "content", "thinking", "reasoning", "summary", "refusal")
"""The members in which a part of a content has its text, or further parts (Magistral's `thinking`)."""
_FUNCTION_CALL = -1
"""The index of the one call in the form before `tool_calls`."""


@dataclass(frozen=True, slots=True)
class TextPiece:
    """A piece of the answer, of the reasoning or of a refusal. Half a character at its end may be a lone surrogate."""

    kind: Kind
    text: str


Piece = TextPiece | CallPiece


def list_member(value: object) -> list[Any]:
    """The elements of a member that is a list, or one element instead of a list of one. EngineFault: they are more than
    one event may have."""
    if value is None or value == "":
        return []
    if not isinstance(value, list):
        return [value]
    if len(value) > ENGINE_EVENT_ITEMS_MAX:
        raise EngineFault(f"The engine sent an event with {len(value)} parts; the limit is {ENGINE_EVENT_ITEMS_MAX}.")
    return value


def finish_reason_in(choice: Mapping[str, Any]) -> object:
    """The finish reason, if the choice has one: some servers send an empty one before the end, and Gemini's API had it
    in camel case."""
    return choice.get("finish_reason") or choice.get("finishReason")


def plain_text_of(choice: Mapping[str, Any]) -> str | None:
    """The text of a delta that has nothing else, and does not end the stream: in a third of the time of `pieces_of`."""
    delta = choice.get("delta")
    if type(delta) is not dict or finish_reason_in(choice) or any(map(delta.get, _OTHERS)):
        return None
    text = delta.get("content")
    return text if type(text) is str else None


def pieces_of(choice: Mapping[str, Any], unread: UnreadReport) -> Iterator[Piece]:
    """The pieces of the delta of a choice, in the order of a model's output. A `text` without a delta is that of the
    completions API, which some proxies stream."""
    delta = choice.get("delta")
    if delta is None:
        delta = choice.get("text")
    if isinstance(delta, str):
        delta = {"content": delta}
    if isinstance(delta, dict):
        yield from _delta_pieces(delta, unread)
    elif delta is not None:
        unread.note("delta", delta)


def _delta_pieces(delta: Object, unread: UnreadReport) -> Iterator[Piece]:
    for name in _REASONING:
        if text := _text_in(delta.get(name)):
            yield TextPiece(Reasoning, text)
            break
    yield from _content_pieces(delta.get("content"), unread)
    if text := _text_in(delta.get("refusal")):
        yield TextPiece(Refusal, text)
    for call in list_member(delta.get("tool_calls")):
        if (piece := _call_piece(call, unread)) is not None:
            yield piece
    if legacy := delta.get("function_call"):
        piece = _call_piece({"function": legacy, "index": _FUNCTION_CALL}, unread)
        if piece is not None:
            yield piece


def _content_pieces(content: object, unread: UnreadReport) -> Iterator[TextPiece]:
    if content is None or content == "":
        return
    if isinstance(content, str):
        yield TextPiece(Text, content)
        return
    for part in list_member(content):
        if text := _text_in(part):
            yield TextPiece(_kind_of(part), text)
        elif not isinstance(part, dict) or not set(_TEXTS) & set(part):
            unread.note("content", part)


def _kind_of(part: object) -> Kind:
    if not isinstance(part, dict):
        return Text
    if part.get("type") == "refusal":
        return Refusal
    return Reasoning if part.get("type") in ("thinking", "reasoning", "reasoning_text") or "thinking" in part else Text


def _text_in(value: object) -> str:
    """The text in a value: of an object, in the first of its members that has one; of a list, in all its parts. Numbers
    are texts that a server forgot to quote. None in a value that is nested too deep."""
    try:
        return _nested_text(value)
    except RecursionError:
        return ""


def _nested_text(value: object) -> str:
    match value:
        case str():
            return value
        case bool() | None:
            return ""
        case int() | float():
            return str(value)
        case dict():
            return next((text for name in _TEXTS if (text := _nested_text(value.get(name)))), "")
        case list():
            return "".join(map(_nested_text, list_member(value)))
    return ""


def _call_piece(given: object, unread: UnreadReport) -> CallPiece | None:
    if not isinstance(given, dict):
        unread.note("tool_calls", given)
        return None
    function = given.get("function") or _custom(given.get("custom")) or {}
    if not isinstance(function, dict):
        unread.note("tool_calls", given)
        return None
    try:
        return CallPiece(_index(given.get("index")), _word(given.get("id")), _name(function), _arguments(function))
    except (ValueError, RecursionError):  # NaN in arguments, thousands of digits or brackets
        unread.note("tool_calls", given)
        return None


def _custom(given: object) -> Object | None:
    """A call of a custom tool as that of the function that stands for it."""
    return {"name": given.get("name"), "arguments": {"input": given.get("input")}} if isinstance(given, dict) else None


def _index(given: object) -> int | None:
    if isinstance(given, str) and given.isdecimal():
        given = int(given)
    return given if isinstance(given, int) and not isinstance(given, bool) else None


def _word(given: object) -> str | None:
    """The id of a call as text; None if it is missing or empty. Some servers number their calls."""
    if isinstance(given, int) and not isinstance(given, bool):
        given = str(given)
    return without_surrogates(given) if isinstance(given, str) and given else None


def _name(function: Object) -> str:
    name = function.get("name")
    return without_surrogates(name) if isinstance(name, str) else ""


def _arguments(function: Object) -> str:
    """The arguments as JSON text: some servers send the object itself, and PHP sends [] for an empty one."""
    given = function.get("arguments", function.get("parameters"))
    if isinstance(given, str):
        return given
    if given is None:
        return ""
    return "{}" if given == [] else without_surrogates(_dump(given))


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
