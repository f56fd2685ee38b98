from __future__ import annotations

from antiphon_translator.conversation import Call, Conversation, Image, Message

CONVERSATION = Conversation(
    messages=(
        Message("user", ("a", "b"), name="k"),
        Message("assistant", ("c",), reasoning="d", calls=(Call("e", "f", {"key": ["g", {"inner": "h"}, 1, None]}),)),
        Message("tool", ("i",), call_id="e", name="f"),
    ),
    tools=({"type": "function", "function": {"name": "f", "parameters": {"type": "string", "enum": ["j"]}}},),
)


def test_map_text_changes_all_texts_but_keys_and_types() -> None:
    changed = CONVERSATION.map_text(str.upper)
    user, assistant, result = changed.messages
    assert user == Message("user", ("A", "B"), name="K")
    assert assistant.calls == (Call("E", "F", {"key": ["G", {"inner": "H"}, 1, None]}),)
    assert (assistant.text, assistant.reasoning) == ("C", "D")
    assert (result.call_id, result.name, result.text) == ("E", "F", "I")
    assert changed.tools[0]["function"] == {"name": "F", "parameters": {"type": "string", "enum": ["J"]}}


def test_map_text_visits_exactly_the_listed_texts() -> None:
    seen: list[str] = []

    def note(text: str) -> str:
        seen.append(text)
        return text

    CONVERSATION.map_text(note)
    assert set(seen) - {""} <= set(CONVERSATION.texts())
    assert set("abcdefghijk") <= set(CONVERSATION.texts())


def test_map_text_changes_keys_by_a_function_of_their_own() -> None:
    shown = Conversation((Message("assistant", calls=(Call("c", "f", {"a": [{"b": "x"}], "c": "y"}),)),))
    changed = shown.map_text(str.upper, lambda key: f"<{key}>" if key != "c" else key)
    assert changed.messages[0].calls[0].arguments == {"<a>": [{"<b>": "X"}], "c": "Y"}


def test_object_keys_are_listed_separately() -> None:
    assert {"key", "inner", "parameters", "enum"} <= set(CONVERSATION.object_keys())


def test_map_text_leaves_images_in_place() -> None:
    first, second, third = (Image(name.encode(), "png", 1, 1) for name in ("first", "second", "third"))
    shown = Conversation((Message("user", ("a", first, "b", second)), Message("tool", (third,), call_id="c")))
    assert shown.images == (first, second, third)
    assert shown.map_text(str.upper).messages[0].parts == ("A", first, "B", second)
    assert shown.map_text(str.upper).images == shown.images
    assert set(shown.texts()) == {"a", "b", "c"}
    assert shown.messages[0].text == "a\nb"
    assert "first" not in repr(shown)


def test_the_parts_of_a_message_join_with_a_line_break() -> None:
    assert Message("user", ("a", "b")).text == "a\nb"
