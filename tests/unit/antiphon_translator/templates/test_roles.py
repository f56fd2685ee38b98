from __future__ import annotations

from dataclasses import replace

import pytest

from antiphon_core.errors import InvalidRequest
from antiphon_translator.conversation import Call, Conversation, Image, Message
from antiphon_translator.templates.roles import CAPABILITIES, Roles, short_id

ALL = Roles.of_names(CAPABILITIES)
SYSTEM, DEVELOPER = Message("system", ("s",)), Message("developer", ("d",))
USER, MORE, ANSWER = Message("user", ("u",)), Message("user", ("v",)), Message("assistant", ("a",))
CALLING = Message("assistant", (), "hm", (Call("call_1", "f", {}),))
RESULT = Message("tool", ("r",), call_id="call_1", name="f")
MARKED = "<developer_message>\nd\n</developer_message>"
IMAGE = Image(b"", "png", 1, 1)


def adapted(roles: Roles, *messages: Message) -> list[str]:
    """The messages, each as its role and its text."""
    return [f"{each.role}:{each.text}" for each in roles.adapt(Conversation(messages)).messages]


@pytest.mark.parametrize(
    "chat",
    [
        (SYSTEM, DEVELOPER, USER, MORE, ANSWER, ANSWER, DEVELOPER, USER),
        (USER, CALLING, RESULT, USER),
        (SYSTEM, USER, Message("assistant", ("",)), USER),
    ],
)
def test_conversation_that_needs_no_change_stays_the_same_object(chat: tuple[Message, ...]) -> None:
    conversation = Conversation(chat)
    assert ALL.adapt(conversation) is conversation


def test_an_ordinary_chat_stays_the_same_object_for_an_unseen_template() -> None:
    conversation = Conversation((SYSTEM, USER, ANSWER, MORE))
    assert Roles().adapt(conversation) is conversation


@pytest.mark.parametrize(
    ("lacking", "chat", "shown"),
    [
        ("developer", (DEVELOPER, USER), ["system:d", "user:u"]),
        ("developer", (SYSTEM, DEVELOPER, USER), ["system:s\n\nd", "user:u"]),
        ("several_system", (SYSTEM, DEVELOPER, USER), ["system:s\n\nd", "user:u"]),
        ("late_system", (USER, DEVELOPER, MORE), ["developer:d", "user:u", "user:v"]),
        ("late_system", (SYSTEM, USER, SYSTEM), ["system:s\n\ns", "user:u"]),
        ("late_system", (USER, ANSWER, DEVELOPER, MORE), ["user:u", "assistant:a", f"user:{MARKED}\n\nv"]),
        ("late_system", (USER, ANSWER, MORE, DEVELOPER), ["user:u", "assistant:a", f"user:v\n\n{MARKED}"]),
        ("late_system", (USER, ANSWER, MORE, DEVELOPER, ANSWER), [*"ua", f"user:v\n\n{MARKED}", "assistant:a"]),
        ("late_system", (USER, CALLING, RESULT, DEVELOPER, ANSWER), [*"uc", "tool:r", f"user:{MARKED}", "assistant:a"]),
        ("system", (DEVELOPER, USER), [f"user:{MARKED}\n\nu"]),
        ("user_runs", (USER, MORE, ANSWER, USER, MORE), ["user:u\n\nv", "assistant:a", "user:u\n\nv"]),
        ("assistant_runs", (USER, ANSWER, ANSWER, USER), ["user:u", "assistant:a\n\na", "user:u"]),
        ("assistant_runs", (USER, ANSWER, CALLING, RESULT), ["user:u", "assistant:a", "tool:r"]),
        ("empty", (USER, Message("assistant"), MORE), ["user:u", "user:v"]),
    ],
)
def test_chat_that_the_template_cannot_express_is_rewritten(
    lacking: str, chat: tuple[Message, ...], shown: list[str]
) -> None:
    short = {"u": "user:u", "a": "assistant:a", "c": "assistant:"}
    assert adapted(replace(ALL, **{lacking: False}), *chat) == [short.get(each, each) for each in shown]


def test_adjacent_late_instructions_are_joined() -> None:
    assert adapted(ALL, USER, ANSWER, SYSTEM, SYSTEM, MORE)[2:] == ["system:s\n\ns", "user:v"]
    assert adapted(replace(ALL, developer=False), USER, ANSWER, SYSTEM, DEVELOPER)[2:] == ["system:s\n\nd"]


def test_a_joined_message_keeps_reasoning_calls_and_the_order_of_its_parts() -> None:
    answer = Message("assistant", ("a",), "why")
    (_, joined, _) = replace(ALL, assistant_runs=False).adapt(Conversation((USER, answer, CALLING, RESULT))).messages
    assert (joined.text, joined.reasoning, joined.calls) == ("a", "why\nhm", CALLING.calls)
    shown = Message("user", ("u", IMAGE)), Message("user", (IMAGE, "v"))
    (joined,) = replace(ALL, user_runs=False).adapt(Conversation(shown)).messages
    assert joined.parts == ("u", IMAGE, IMAGE, "v")


@pytest.mark.parametrize(
    ("lacking", "chat", "words"),
    [
        ("tool", (USER, CALLING, RESULT), "no results of tool calls"),
        ("user_after_tool", (USER, CALLING, RESULT, USER), "between the result"),
        ("empty", (Message("user", ("",)),), "without text"),
    ],
)
def test_chat_that_cannot_be_rewritten_is_rejected(lacking: str, chat: tuple[Message, ...], words: str) -> None:
    with pytest.raises(InvalidRequest, match=words) as caught:
        replace(ALL, **{lacking: False}).adapt(Conversation(chat))
    assert caught.value.field == "input"


def test_text_before_a_call_is_a_message_of_its_own_where_only_that_shows_it() -> None:
    said = CALLING._replace(parts=("Let me look.",), reasoning="Hm.")
    chat = Conversation((USER, said, RESULT))
    assert ALL.adapt(chat) is chat
    apart = replace(ALL, text_with_calls=False)
    assert apart.adapt(chat).messages == (
        USER,
        Message("assistant", ("Let me look.",), "Hm."),
        CALLING._replace(reasoning=""),
        RESULT,
    )
    assert replace(apart, assistant_runs=False).adapt(chat).messages == chat.messages
    assert apart.adapt(plain := Conversation((USER, CALLING, RESULT))) is plain


def test_late_instruction_behind_a_tool_result_is_rejected_without_user_after_tool() -> None:
    roles = replace(ALL, late_system=False, user_after_tool=False)
    with pytest.raises(InvalidRequest, match="between the result"):
        roles.adapt(Conversation((USER, CALLING, RESULT, DEVELOPER)))


def test_call_ids_are_shortened_to_nine_characters_and_still_match() -> None:
    messages = replace(ALL, long_call_ids=False).adapt(Conversation((USER, CALLING, RESULT))).messages
    assert messages[1].calls[0].id == messages[2].call_id == short_id("call_1")
    assert len(short_id("call_1")) == 9
    assert short_id("call_1").isalnum()
    assert short_id("abcdef123") == "abcdef123"
    assert short_id("call_2") != short_id("call_1")


def test_call_ids_in_the_form_of_the_model_are_not_shortened() -> None:
    calls = (Call("functions.f:0", "f", {}, model_id="functions.f:0"), Call("call_f", "f", {}))
    results = [RESULT._replace(call_id=call.id) for call in calls]
    chat = Conversation((USER, Message("assistant", (), calls=calls), *results))
    _, calling, *results = replace(ALL, long_call_ids=False).adapt(chat).messages
    assert [call.id for call in calling.calls] == ["functions.f:0", short_id("call_f")]
    assert [result.call_id for result in results] == ["functions.f:0", short_id("call_f")]


def test_roles_are_restored_from_their_capability_names() -> None:
    assert Roles.of_names(Roles().names) == Roles()


@pytest.mark.parametrize(("text", "continues"), [("", False), ("a", True)])
def test_message_that_was_left_out_is_not_continued(text: str, continues: bool) -> None:
    begun = Message("assistant", (text,))
    shown = replace(ALL, empty=False, user_runs=False).adapt(Conversation((USER, MORE, begun), continues_last=True))
    assert shown.continues_last is continues
    assert shown.messages[-1].role == ("assistant" if continues else "user")


@pytest.mark.parametrize("continues", [False, True])
def test_conversation_of_messages_that_are_left_out_is_rejected(continues: bool) -> None:
    with pytest.raises(InvalidRequest, match="no message without text") as caught:
        replace(ALL, empty=False).adapt(Conversation((Message("assistant", ("",)),), continues_last=continues))
    assert (caught.value.field, caught.value.code) == ("input", "unsupported_value")
