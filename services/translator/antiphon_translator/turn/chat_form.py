"""Converts a conversation to the messages of chat completions, for servers that render and parse by themselves."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any

from antiphon_core.jsons import Object, dumps
from antiphon_translator.conversation import Conversation, Image, Message
from antiphon_translator.engines import images
from antiphon_translator.generation import REASONING, ChatPrompt
from antiphon_translator.prompt.tools import ToolSet


def of_conversation(conversation: Conversation, tools: ToolSet, switches: Mapping[str, Any]) -> ChatPrompt:
    return ChatPrompt(
        messages=conversation.each(_message),
        tools=conversation.tools,
        tool_choice=_choice(tools),
        switches=switches or None,
        strict=frozenset(
            tool.shown_as for tool in tools.shown if tool.strict or (tools.requires_call and tool in tools.callable)
        ),
    )


def _message(message: Message) -> Object:
    written: Object = {"role": message.role, "content": _content(message)}
    if message.reasoning:
        written[REASONING] = message.reasoning
    if message.calls:
        written["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": dumps(call.arguments).decode()},
            }
            for call in message.calls
        ]
    if message.call_id:
        written["tool_call_id"] = message.call_id
    elif message.name:
        written["name"] = message.name
    return written


_DETAILS = ("auto", "low", "high")
"""The levels of detail of an image in chat completions. "original" is not among them and becomes "high"."""


def _content(message: Message) -> str | list[Object]:
    """The content of a message: one text or, with images, a list of parts. Neighbouring texts are joined with a newline
    here, so that no server joins them in its own way."""
    if not message.images:
        return message.text
    written: list[Object] = []
    for are_images, run in groupby(message.parts, lambda part: isinstance(part, Image)):
        if are_images:
            written += [_image(part) for part in run if isinstance(part, Image)]
        else:
            written.append({"type": "text", "text": "\n".join(part for part in run if isinstance(part, str))})
    return written


def _image(image: Image) -> Object:
    """The part of an image, with its content and never its URL: the server must not fetch URLs that clients name."""
    detail = "high" if image.detail == "original" else image.detail
    details = {"detail": detail} if detail in _DETAILS else {}
    return {"type": "image_url", "image_url": {"url": images.data_url(image.content)} | details}


def _choice(tools: ToolSet) -> str | Object | None:
    if not tools.shown:
        return None
    if not tools.callable:
        return "none"
    if tools.requires_call and len(tools.callable) == 1:
        return {"type": "function", "function": {"name": tools.callable[0].shown_as}}
    return "required" if tools.requires_call else "auto"
