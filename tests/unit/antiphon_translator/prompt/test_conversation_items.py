from __future__ import annotations

from typing import Any

import pytest

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object
from antiphon_core.limits import JSON_DEPTH_MAX
from antiphon_translator.conversation import Conversation, Image, Message
from antiphon_translator.media.sight import Sight
from antiphon_translator.media.turn_media import TurnMedia
from antiphon_translator.prompt import conversation_items
from antiphon_translator.prompt.conversation_items import SUMMARY_NOTE, UNREADABLE
from antiphon_translator.prompt.read_history import NOTHING_READ, ReadHistory
from tests.support.images import PNG, data_url, image_part, user
from tests.support.served_models import message

IMAGE = Image(PNG, "png", 3, 2)
CALL = {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"}


def build(**given: Any) -> Conversation:
    return conversation_items.build(**given)[0]


def test_instructions_come_first_then_history_then_input() -> None:
    built = build(
        instructions="Be brief.",
        history=[message("user", "a"), message("assistant", "b")],
        given=[message("developer", "c")],
    )
    assert built == Conversation(
        (
            Message("system", ("Be brief.",)),
            Message("user", ("a",)),
            Message("assistant", ("b",)),
            Message("developer", ("c",)),
        )
    )


def test_parts_of_a_message_are_kept_and_join_with_a_line_break() -> None:
    (shown,) = build(instructions=None, history=[], given=[message("user", "a", "b")]).messages
    assert shown.parts == ("a", "b")
    assert shown.text == "a\nb"


def test_refusals_and_short_forms_are_read() -> None:
    refusal = {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}
    built = build(instructions="", history=[refusal], given=[{"role": "user", "content": "Why?"}])
    assert [one.text for one in built.messages] == ["No.", "Why?"]


def test_preamble_of_an_assistant_is_marked_as_commentary() -> None:
    preamble = message("assistant", "Let me see.") | {"phase": "commentary"}
    answer = message("assistant", "Done.") | {"phase": "final_answer"}
    built = build(instructions=None, history=[message("user", "a"), preamble, answer], given=[message("user", "b")])
    assert [one.is_commentary for one in built.messages] == [False, True, False, False]


def test_the_speaker_of_a_message_keeps_its_name() -> None:
    given = [message("user", "a") | {"name": "bob"}, message("assistant", "b") | {"name": "al"}, message("user", "c")]
    built = build(instructions=None, history=[message("user", "a") | {"name": 7}], given=given)
    assert [one.name for one in built.messages] == ["", "bob", "al", ""]


REFUSED: list[tuple[str, Any, str]] = [
    ("input[0]", {"type": "image_generation_call"}, "unsupported_value"),
    ("input[0].type", {"type": ["message"]}, "invalid_type"),
    ("input[0]", 7, "invalid_type"),
    ("input[0].role", {"role": "tool", "content": "x"}, "unsupported_value"),
    ("input[0].role", {"role": ["user"], "content": "x"}, "invalid_type"),
    ("input[0].content", {"role": "user", "content": None}, "invalid_type"),
    ("input[0].content[0]", {"role": "user", "content": ["x"]}, "invalid_type"),
    ("input[0].content[0]", {"role": "user", "content": [{"type": "input_image"}]}, "unsupported_value"),
    ("input[0].content[0]", user(image_part()), "unsupported_value"),
    ("input[0].content[1].file_id", user("x", image_part(file_id="file_1")), "unsupported_parameter"),
    ("input[0].content[0].file_data", user({"type": "input_file", "file_data": "x"}), "invalid_value"),
    ("input[0].content[0].type", {"role": "user", "content": [{"text": "x"}]}, "invalid_type"),
    ("input[0].content[0].text", {"role": "user", "content": [{"type": "input_text"}]}, "invalid_type"),
]


@pytest.mark.parametrize(("path", "item", "code"), REFUSED)
def test_invalid_item_is_rejected_with_its_path(path: str, item: Any, code: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        build(instructions=None, history=[], given=[item])
    assert (caught.value.field, caught.value.code) == (path, code)


def test_path_in_an_error_has_the_index_of_the_invalid_item() -> None:
    good = message("user", "x")
    bad = message("user", "x") | {"content": [{"type": "input_text", "text": "y"}, {"type": "input_file"}]}
    with pytest.raises(InvalidRequest) as caught:
        build(instructions=None, history=[good], given=[good, good, good, bad])
    assert caught.value.field == "input[3].content[1]"
    with pytest.raises(InvalidRequest) as caught:
        build(instructions=None, history=[good, bad], given=[good])
    assert caught.value.field == "history[1].content[1]"


def test_empty_conversation_is_rejected() -> None:
    with pytest.raises(InvalidRequest) as caught:
        build(instructions=None, history=[], given=[])
    assert caught.value.field == "input"


def test_images_and_files_are_message_parts_in_order() -> None:
    file = {"type": "input_file", "filename": "a.txt", "file_data": data_url(b"x", "text/plain")}
    built = build(
        instructions=None, history=[], given=[user("a", image_part(), file, "b")], media=TurnMedia(Sight.NATIVE)
    )
    assert built.messages == (Message("user", ("a", IMAGE, '<file name="a.txt">\nx\n</file>', "b")),)


def test_a_compaction_is_shown_as_a_note() -> None:
    summary = [{"type": "summary_text", "text": "They met."}, {"type": "summary_text", "text": "They parted."}]
    compaction = {"type": "compaction", "id": "cmp_1", "encrypted_content": "v1.k.x", "summary": summary}
    settings = [{"type": "configuration_update", "reasoning": {"effort": "low"}}, {"type": "compaction_trigger"}]
    built = build(
        instructions=None, history=[message("user", "a"), compaction], given=[message("user", "b"), *settings]
    )
    assert built.messages == (
        Message("user", ("a",)),
        Message("user", (SUMMARY_NOTE + "They met.\nThey parted.",)),
        Message("user", ("b",)),
    )


def test_compaction_that_is_still_sealed_is_rejected() -> None:
    with pytest.raises(InvalidRequest) as caught:
        build(instructions=None, history=[{"type": "compaction", "encrypted_content": "x"}], given=[])
    assert caught.value.field == "history[0].summary"


def test_images_in_tool_outputs_are_accepted() -> None:
    for kind in ("function_call_output", "custom_tool_call_output"):
        result = {"type": kind, "call_id": "c", "output": [image_part()]}
        built = build(instructions=None, history=[CALL], given=[result], media=TurnMedia(Sight.NATIVE))
        assert built.messages[-1] == Message("tool", (IMAGE,), call_id="c", name="look")


@pytest.mark.parametrize("role", ["assistant", "system", "developer"])
def test_images_of_roles_other_than_user_and_tool_are_rejected(role: str) -> None:
    given = [user("a", image_part()) | {"role": role}]
    with pytest.raises(InvalidRequest, match=f"not the {role}'s") as caught:
        build(instructions=None, history=[], given=given, media=TurnMedia(Sight.NATIVE))
    assert (caught.value.field, caught.value.code) == ("input[0].content[1]", "unsupported_value")
    described = build(instructions=None, history=[], given=given, media=TurnMedia(Sight.PLACEHOLDER))
    assert described.messages[0].parts == ("a", "[image: 3x2 png, not shown to this model]")


def test_map_text_changes_every_text_and_nothing_else() -> None:
    before = Conversation((Message("user", ("a", "b")), Message("assistant", ("c",))))
    after = Conversation((Message("user", ("A", "B")), Message("assistant", ("C",))))
    assert before.map_text(str.upper) == after


@pytest.mark.parametrize(
    "written",
    ['{"a":', "[1]", "5", "Rome", '{"a":"\\ud800"}', '{"a":' + "[" * 500 + "]" * 500 + "}", "[" * 5_000],
    ids=lambda written: written[:12],
)
def test_arguments_without_an_object_are_shown_as_written(written: str) -> None:
    call = CALL | {"arguments": written, "status": "completed"}
    result = {"type": "function_call_output", "call_id": "c", "output": "No."}
    built = build(instructions=None, history=[call], given=[result])
    assert built.messages[0].calls[0].arguments == {UNREADABLE: written}
    assert built.map_text(str.upper).messages[0].calls[0].arguments == {UNREADABLE: written.upper()}


def test_arguments_nested_up_to_the_request_limit_are_read() -> None:
    deepest = JSON_DEPTH_MAX - 1  # one level is the object around it
    call = CALL | {"arguments": '{"a":' + "[" * deepest + "]" * deepest + "}"}
    (message, _) = build(
        instructions=None, history=[], given=[call, {"type": "function_call_output", "call_id": "c", "output": ""}]
    ).messages
    assert UNREADABLE not in message.calls[0].arguments


@pytest.mark.parametrize("kind", ["function_call", "custom_tool_call"])
def test_incomplete_call_is_shown_only_with_its_output(kind: str) -> None:
    call = CALL | {"type": kind, "arguments": '{"a":', "input": "ls", "status": "incomplete"}
    result = {"type": f"{kind}_output", "call_id": "c", "output": "That was cut off."}
    alone = build(instructions=None, history=[message("user", "a"), call], given=[message("user", "b")])
    assert [shown.calls for shown in alone.messages] == [(), ()]
    answered = build(instructions=None, history=[message("user", "a"), call], given=[result])
    assert [shown.role for shown in answered.messages] == ["user", "assistant", "tool"]


def read(*items: Any, given: Any = (), known: ReadHistory = NOTHING_READ) -> ReadHistory:
    """Returns the known part of a history that ends with these items."""
    return conversation_items.build(instructions=None, history=items, given=given, known=known)[1]


def result(call_id: str = "c") -> Any:
    return {"type": "function_call_output", "call_id": call_id, "output": "42"}


def test_known_history_is_placed_behind_the_instructions() -> None:
    known = read(message("user", "a"), message("assistant", "b"), message("user", "c"), given=[message("user", "d")])
    built = build(instructions="Be brief.", history=[message("user", "e")], given=[message("user", "f")], known=known)
    assert [part for said in built.messages for part in said.parts] == ["Be brief.", "a", "b", "c", "e", "f"]
    assert built.each(lambda said: said) == list(built.messages)


def test_answer_behind_a_known_history_keeps_its_reasoning() -> None:
    known = read(
        message("user", "a"),
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
        given=[CALL, result()],
    )
    built = build(instructions=None, history=[message("assistant", "b")], given=[], known=known)
    assert built.messages[1:] == (Message("assistant", ("b",), reasoning="hm"),)


def test_call_in_a_known_history_requires_and_accepts_an_output() -> None:
    known = read(message("user", "a"), CALL, given=[result()])
    assert build(instructions=None, history=[], given=[result()], known=known).messages[-1].role == "tool"
    with pytest.raises(InvalidRequest, match="No tool output found for function call c"):
        build(instructions=None, history=[], given=[message("user", "b")], known=known)


def test_incomplete_call_with_an_already_answered_id_requires_an_output() -> None:
    known = read(CALL, result())
    with pytest.raises(InvalidRequest, match="No tool output found for function call c"):
        build(instructions=None, history=[CALL | {"status": "incomplete"}], given=[message("user", "b")], known=known)


def test_history_is_known_only_up_to_an_incomplete_call() -> None:
    known = read(message("user", "a"))
    cut_off = CALL | {"status": "incomplete"}
    assert read(cut_off, message("user", "b"), known=known) is known


def test_rejected_item_behind_a_known_history_has_its_full_index() -> None:
    with pytest.raises(InvalidRequest) as caught:
        read({"role": "nobody"}, known=read(message("user", "a"), message("user", "b")))
    assert caught.value.field == "history[2].role"


def test_path_of_a_message_is_that_of_its_first_item() -> None:
    history = [message("user", "a"), {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "hm"}]}]
    given = [message("assistant", "b"), CALL, result(), message("user", "c")]
    members: Any = {"instructions": "Be brief.", "history": history, "given": given}
    paths = ["instructions", "history[0]", "history[1]", "input[2]", "input[3]"]
    assert len(build(**members).messages) == len(paths)
    for place, path in enumerate(paths):
        assert conversation_items.path_of(place, **members) == path
    assert conversation_items.path_of(0, **(members | {"instructions": None})) == "history[0]"


@pytest.mark.parametrize("named", [{"id": "c"}, {"id": "other", "call_id": "c"}])
def test_the_output_of_a_local_shell_names_its_call_by_call_id_or_id(named: Object) -> None:
    call = {"type": "local_shell_call", "id": "l", "call_id": "c", "action": {"type": "exec", "command": ["ls"]}}
    output = {"type": "local_shell_call_output", "output": "a.txt", **named}
    built = build(instructions=None, history=[call, output], given=[message("user", "And?")])
    assert built.messages[1] == Message("tool", ("a.txt",), call_id="c", name="local_shell")


SEARCH: Object = {"type": "tool_search_call", "call_id": "s", "execution": "client", "arguments": {"goal": "eta"}}
FOUND: Object = {"type": "tool_search_output", "call_id": "s", "tools": [{"type": "function", "name": "f"}]}


@pytest.mark.parametrize("execution", [{}, {"execution": "client"}])
@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_search_that_the_client_ran_is_shown_as_a_call_and_its_result(execution: Object, at: int) -> None:
    items = [SEARCH, FOUND | execution, message("user", "And?")]
    read, result_, _ = build(instructions=None, history=items[:at], given=items[at:]).messages
    assert [(call.name, call.arguments) for call in read.calls] == [("tool_search", {"goal": "eta"})]
    assert result_ == Message("tool", ('{"tools":["f"]}',), call_id="s", name="tool_search")


@pytest.mark.parametrize("call_id", [None, "s"])
def test_a_search_that_a_server_ran_is_not_shown(call_id: str | None) -> None:
    ran: Object = {"execution": "server", "call_id": call_id}
    built = build(instructions=None, history=[SEARCH | ran, FOUND | ran], given=[message("user", "And?")])
    assert [shown.role for shown in built.messages] == ["user"]


def test_an_output_of_the_client_without_its_search_is_rejected() -> None:
    with pytest.raises(InvalidRequest, match="No tool call found"):
        build(instructions=None, history=[], given=[FOUND | {"execution": "client"}, message("user", "And?")])
