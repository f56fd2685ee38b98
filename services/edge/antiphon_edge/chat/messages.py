"""Converts chat messages to items. An assistant message can become several: reasoning, a message, then its calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object
from antiphon_edge.chat.body_messages import (
    ChatCustomCall,
    ChatFile,
    ChatImage,
    ChatMessage,
    ChatPart,
    ChatReasoningDetail,
    ChatReasoningSummary,
    ChatReasoningText,
    ChatRefusal,
    ChatText,
)


@dataclass(frozen=True, slots=True)
class SourcedItem:
    """An item, and the path in the chat request from which it was made."""

    item: Object
    origin: str


def as_items(messages: Sequence[ChatMessage]) -> list[SourcedItem]:
    """Converts all messages. InvalidRequest: a message lacks a member that its role needs."""
    custom_ids: set[str] = set()
    items: list[SourcedItem] = []
    for index, message in enumerate(messages):
        items += _of_message(message, f"messages[{index}]", custom_ids)
    return items


def _of_message(message: ChatMessage, origin: str, custom_ids: set[str]) -> Iterator[SourcedItem]:
    """Converts one message. `custom_ids`: ids of custom tool calls so far, whose results are items of another type."""
    if message.role == "tool":
        yield SourcedItem(_result(message, origin, custom_ids), origin)
    elif message.role == "assistant":
        yield from _of_assistant(message, origin, custom_ids)
    else:
        yield SourcedItem(_message(message, origin), origin)


def _message(message: ChatMessage, origin: str) -> Object:
    item = {"type": "message", "role": message.role, "content": _content(message, origin)}
    return item | ({"name": message.name} if message.name else {})


def _of_assistant(message: ChatMessage, origin: str, custom_ids: set[str]) -> Iterator[SourcedItem]:
    member, text = _reasoning(message, origin)
    if text:
        reasoning = {"type": "reasoning_text", "text": text}
        yield SourcedItem({"type": "reasoning", "summary": [], "content": [reasoning]}, f"{origin}.{member}")
    calls = message.tool_calls or []
    if message.content or message.refusal or not (calls or text):
        yield SourcedItem(_message(message, origin), origin)
    for index, call in enumerate(calls):
        if isinstance(call, ChatCustomCall):
            custom_ids.add(call.id)
            item = {"type": "custom_tool_call", "name": call.custom.name, "input": call.custom.input}
        else:
            item = {"type": "function_call", "name": call.function.name, "arguments": call.function.arguments}
        yield SourcedItem({"call_id": call.id, **item}, f"{origin}.tool_calls[{index}]")


_REASONING = ("reasoning_content", "reasoning", "thinking")
"""The names that servers have for the text of an assistant's reasoning. Some write it under two of them."""


def _reasoning(message: ChatMessage, origin: str) -> tuple[str, str]:
    """The reasoning of a message, and the member that has it; an empty text if there is none. InvalidRequest: two
    members have different texts."""
    given = [(name, text) for name in _REASONING if (text := getattr(message, name))]
    if not given:
        return "reasoning_details", _text_of(message.reasoning_details or ())
    for name, text in given[1:]:
        if text != given[0][1]:
            raise InvalidRequest(
                f"'{origin}.{given[0][0]}' and '{origin}.{name}' are names of the same text, but differ. Send one of "
                "them.",
                field=f"{origin}.{name}",
                code="mutually_exclusive_parameters",
            )
    return given[0]


def _text_of(details: Sequence[ChatReasoningDetail]) -> str:
    """The text of reasoning details. Those with the same index are pieces of one text, as a stream has them."""
    readable = [each for each in details if isinstance(each, (ChatReasoningText, ChatReasoningSummary))]
    texts = [
        "".join((each.text or "") if isinstance(each, ChatReasoningText) else each.summary for each in run)
        for _, run in groupby(readable, lambda each: id(each) if each.index is None else each.index)
    ]
    return "\n".join(filter(None, texts))


def _result(message: ChatMessage, origin: str, custom_ids: set[str]) -> Object:
    if message.tool_call_id is None:
        raise _missing(f"{origin}.tool_call_id")
    kind = "custom_tool_call_output" if message.tool_call_id in custom_ids else "function_call_output"
    return {"type": kind, "call_id": message.tool_call_id, "output": _content(message, origin)}


def _content(message: ChatMessage, origin: str) -> str | list[Object]:
    content, refusal = message.content, message.refusal
    if content is None and not refusal:
        raise _missing(f"{origin}.content")
    if isinstance(content, str):
        if not refusal:
            return content
        content = [ChatText(type="text", text=content)]
    parts = [_part(part, message.role) for part in content or ()]
    return [*parts, {"type": "refusal", "refusal": refusal}] if refusal else parts


def _part(part: ChatPart, role: str) -> Object:
    match part:
        case ChatImage():
            return {"type": "input_image", "image_url": part.image_url.url, "detail": part.image_url.detail}
        case ChatFile():
            return {"type": "input_file", **part.file.model_dump(include={"file_data", "file_id", "filename"})}
        case ChatRefusal():
            return {"type": "refusal", "refusal": part.refusal}
        case _:
            return {"type": "output_text" if role == "assistant" else "input_text", "text": part.text}


def _missing(path: str) -> InvalidRequest:
    return InvalidRequest(f"Missing required parameter: '{path}'.", field=path, code="missing_required_parameter")
