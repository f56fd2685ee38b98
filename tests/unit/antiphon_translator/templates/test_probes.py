from __future__ import annotations

from antiphon_translator.conversation import ROLES
from antiphon_translator.templates import probes


def test_probes_cover_all_features_of_a_conversation() -> None:
    shown = list(probes.conversations())
    messages = [message for each in shown for message in each.messages]
    assert {message.role for message in messages} == {*ROLES, "tool"}
    assert any(message.reasoning for message in messages)
    assert any(len(message.calls) > 1 for message in messages)
    assert any(message.is_commentary for message in messages)
    assert any(message.images for message in messages)
    assert any(len(message.parts) > 1 for message in messages)
    assert any(each.continues_last for each in shown)
    assert {len(each.tools) for each in shown} == {0, 1, len(probes.TOOLS)}
    kinds = {type(value) for message in messages for call in message.calls for value in call.arguments.values()}
    assert kinds == {str, int, bool, type(None), list, dict}


def test_long_chat_of_half_length_is_a_prefix_of_the_whole() -> None:
    half, whole = probes.long_chat(4), probes.long_chat(8)
    assert whole.messages[:4] == half.messages
    assert [message.role for message in half.messages] == ["user", "assistant"] * 2
