from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from antiphon_core.jsons import loads
from antiphon_translator.conversation import Call, Conversation, Image, Message
from antiphon_translator.prompt.tools import Tool, ToolSet
from antiphon_translator.turn.chat_form import of_conversation
from tests.support.images import JPEG, PNG, data_url

F, G = Tool("f", "f"), Tool("n__g", "g", namespace="n")


def test_messages_calls_and_results_become_chat_messages() -> None:
    conversation = Conversation(
        (
            Message("user", ("Rome?", "Now?")),
            Message("assistant", ("I look.",), reasoning="Hm.", calls=(Call("call_1", "f", {"city": "Rome"}),)),
            Message("tool", ("Sunny.",), call_id="call_1", name="f"),
        ),
        tools=(F.as_function(),),
    )
    chat = of_conversation(conversation, ToolSet((F,), (F,)), {"enable_thinking": False})
    user, assistant, result = chat.messages
    assert user == {"role": "user", "content": "Rome?\nNow?"}
    (call,) = assistant.pop("tool_calls")
    assert assistant == {"role": "assistant", "content": "I look.", "reasoning": "Hm."}
    assert (call["id"], call["function"]["name"]) == ("call_1", "f")
    assert loads(call["function"]["arguments"].encode()) == {"city": "Rome"}
    assert result == {"role": "tool", "content": "Sunny.", "tool_call_id": "call_1"}
    assert (chat.tools, chat.switches) == ((F.as_function(),), {"enable_thinking": False})


def test_functions_are_strict_as_declared_or_where_a_call_is_forced() -> None:
    strict = replace(G, strict=True)
    chat = Conversation((Message("user", ("a",)),), tools=(F.as_function(), strict.as_function()))
    assert of_conversation(chat, ToolSet((F, strict), (F, strict)), {}).strict == {"n__g"}
    assert of_conversation(chat, ToolSet((F, strict), (F, strict), requires_call=True), {}).strict == {"f", "n__g"}
    assert of_conversation(chat, ToolSet((F, G), (F,), requires_call=True), {}).strict == {"f"}


def test_only_speakers_are_named_in_chat_messages() -> None:
    messages = (Message("user", ("a",), name="bob"), Message("tool", ("b",), call_id="call_1", name="f"))
    user, result = of_conversation(Conversation(messages), ToolSet((), ()), {}).messages
    assert user == {"role": "user", "content": "a", "name": "bob"}
    assert result == {"role": "tool", "content": "b", "tool_call_id": "call_1"}


def test_images_make_the_content_a_list() -> None:
    shown = (Image(PNG, "png", 3, 2), Image(JPEG, "jpeg", 3, 2, "low"), Image(PNG, "png", 3, 2, "original"))
    conversation = Conversation(
        (Message("user", ("a", *shown, "b")), Message("tool", (shown[0],), call_id="c", name="f"))
    )
    user, result = of_conversation(conversation, ToolSet(), {}).messages
    png = {"url": data_url(PNG)}
    assert user["content"] == [
        {"type": "text", "text": "a"},
        {"type": "image_url", "image_url": png},
        {"type": "image_url", "image_url": {"url": data_url(JPEG, "image/jpeg"), "detail": "low"}},
        {"type": "image_url", "image_url": png | {"detail": "high"}},
        {"type": "text", "text": "b"},
    ]
    assert result["content"] == [{"type": "image_url", "image_url": png}]


@pytest.mark.parametrize(
    ("tools", "choice"),
    [
        (ToolSet(), None),
        (ToolSet((F, G), (F, G)), "auto"),
        (ToolSet((F, G), ()), "none"),
        (ToolSet((F, G), (F, G), requires_call=True), "required"),
        (ToolSet((F, G), (G,), requires_call=True), {"type": "function", "function": {"name": "n__g"}}),
    ],
)
def test_tool_choice_is_sent_in_chat_completions_form(tools: ToolSet, choice: Any) -> None:
    assert of_conversation(Conversation(()), tools, {}).tool_choice == choice
