from __future__ import annotations

from pathlib import Path

import pytest

from antiphon.talk.conversation import CannotDo, Conversation


def answered(*ids: str) -> Conversation:
    conversation = Conversation("m")
    for response_id in ids:
        conversation.take({"id": response_id, "output": []})
    return conversation


def test_each_message_continues_the_last_response() -> None:
    conversation = Conversation("m", instructions="Be brief.", options={"max_output_tokens": 9})
    assert conversation.say("Hi") == {
        "model": "m",
        "input": [{"role": "user", "content": "Hi"}],
        "instructions": "Be brief.",
        "max_output_tokens": 9,
    }
    conversation.take({"id": "resp_1", "output": []})
    assert conversation.say("Again")["previous_response_id"] == "resp_1"


def test_take_returns_the_function_calls_of_a_response() -> None:
    call = {"type": "function_call", "name": "f", "call_id": "c", "arguments": "{}"}
    assert Conversation("m").take({"id": "resp_1", "output": [{"type": "reasoning"}, call]}) == [call]


def test_fork_goes_back_by_the_given_number_of_responses() -> None:
    conversation = answered("resp_1", "resp_2", "resp_3")
    assert conversation.fork(2) == "resp_1"
    assert conversation.say("x")["previous_response_id"] == "resp_1"
    assert conversation.fork(1) == ""
    assert "previous_response_id" not in conversation.say("x")


@pytest.mark.parametrize("turns", [0, 3])
def test_fork_by_an_impossible_number_of_responses_is_refused(turns: int) -> None:
    with pytest.raises(CannotDo, match="There are 2 responses"):
        answered("resp_1", "resp_2").fork(turns)


def test_an_attached_image_is_sent_with_the_next_message_only(tmp_path: Path) -> None:
    (tmp_path / "dot.png").write_bytes(b"png")
    conversation = Conversation("m")
    conversation.attach(str(tmp_path / "dot.png"))
    content = conversation.say("What is it?")["input"][0]["content"]
    assert content[1] == {"type": "input_image", "image_url": "data:image/png;base64,cG5n"}
    assert conversation.say("And?")["input"][0]["content"] == "And?"


@pytest.mark.parametrize(("name", "why"), [("none.png", "No such file"), ("notes.txt", "no name of an image")])
def test_a_file_that_is_no_image_is_refused(tmp_path: Path, name: str, why: str) -> None:
    with pytest.raises(CannotDo, match=why):
        Conversation("m").attach(str(tmp_path / name))


def test_only_a_response_can_be_resumed() -> None:
    conversation = answered("resp_1")
    conversation.resume("resp_9")
    assert conversation.heads == ["resp_9"]
    with pytest.raises(CannotDo):
        conversation.resume("conv_1")


def test_a_message_behind_a_call_brings_an_output_for_it() -> None:
    call = {"type": "function_call", "name": "f", "call_id": "c", "arguments": "{}"}
    conversation = answered("resp_1")
    conversation.take({"id": "resp_2", "output": [call]})
    output, message = conversation.say("Never mind.")["input"]
    assert (output["type"], output["call_id"]) == ("function_call_output", "c")
    assert message == {"role": "user", "content": "Never mind."}
    conversation.fork(1)
    assert conversation.say("x")["input"] == [{"role": "user", "content": "x"}]
