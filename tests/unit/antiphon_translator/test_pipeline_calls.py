"""Turns in which the model reasons and calls tools, read from token ids."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_core import events
from antiphon_core.errors import EngineUnavailable, InvalidRequest
from antiphon_core.fold import fold
from antiphon_core.ids import SequentialIds
from antiphon_core.jsons import Object, loads
from antiphon_core.limits import OUTPUT_ITEMS_MAX
from antiphon_translator.engines.scripted import ALL_CONTROLS
from antiphon_translator.generation import ChatChunk, FinishReason, Level, TokenChunk
from antiphon_translator.lineage import turn_lineage
from antiphon_translator.parsing.segments import Arguments, CallBegin, CallEnd
from tests.support.pipelines import pipeline_of
from tests.support.prompts import ids_in
from tests.support.reasoning_model import (
    CALL,
    EXEC,
    TOKENIZER,
    WEATHER,
    kinds,
    play,
    reasoning_model,
)
from tests.support.served_models import model, turn
from tests.support.small_vocabulary import ids_of


def test_reasoning_text_and_a_call_become_items() -> None:
    response = play("<think>", "\nLet me look.\n", "</think>", "\n\nI look.\n", *CALL, tools=[WEATHER])
    assert kinds(response) == ["reasoning", "message", "function_call"]
    reasoning, message, call = response["output"]
    assert reasoning["content"] == [{"type": "reasoning_text", "text": "Let me look."}]
    assert message["content"][0]["text"] == "I look."
    assert (call["name"], loads(call["arguments"])) == ("get_weather", {"city": "Rome"})
    assert response["status"] == "completed"


def test_reasoning_tokens_are_counted_exactly() -> None:
    response = play("<think>", "12345", "</think>", "678")
    assert response["usage"]["output_tokens"] == 1 + 5 + 1 + 3 + 1  # includes the end-of-turn id
    assert response["usage"]["output_tokens_details"]["reasoning_tokens"] == 5 + 1  # includes the closing marker


@given(st.lists(st.integers(0, 10_000), max_size=12))
def test_cut_of_the_token_ids_does_not_change_the_response(cuts: list[int]) -> None:
    said = ("<think>", "Hm ü.", "</think>", " Ja. ", *CALL, *CALL, "Ende.")
    assert play(*said, tools=[WEATHER], cuts=cuts) == play(*said, tools=[WEATHER])


def test_marker_spelt_without_its_token_is_text() -> None:
    response = play('Say "', "<tool" + "_call> and </think>", '".')
    assert kinds(response) == ["message"]
    assert response["output"][0]["content"][0]["text"] == 'Say "<tool_call> and </think>".'


@pytest.mark.parametrize("request_", [{}, {"tools": [WEATHER], "tool_choice": "none"}], ids=["no tools", "no choice"])
def test_without_tools_a_call_is_text(request_: Object) -> None:
    response = play(*CALL, **request_)
    assert kinds(response) == ["message"]
    assert response["output"][0]["content"][0]["text"] == "".join(CALL)


@pytest.mark.parametrize(("parallel", "calls"), [(True, 2), (None, 2), (False, 1)])
def test_without_parallel_calls_the_first_call_ends_the_turn(parallel: bool | None, calls: int) -> None:
    response = play(*CALL, *CALL, tools=[WEATHER], parallel_tool_calls=parallel)
    assert kinds(response) == ["function_call"] * calls
    assert response["status"] == "completed"


def test_call_of_a_custom_tool_has_its_plain_input() -> None:
    said = ("<tool_call>", '{"name": "exec", "arguments": {"input": "print(\\"ü\\")"}}', "</tool_call>")
    (item,) = play(*said, tools=[EXEC])["output"]
    assert (item["type"], item["input"]) == ("custom_tool_call", 'print("ü")')


def test_search_and_calls_of_functions_are_items_in_their_order() -> None:
    search = ("<tool_call>", '{"name": "tool_search", "arguments": {"query": "eta"}}', "</tool_call>")
    response = play(*CALL, *search, *CALL, *search, tools=[WEATHER, {"type": "tool_search", "execution": "client"}])
    assert kinds(response) == ["function_call", "tool_search_call", "function_call", "tool_search_call"]
    for item in response["output"][1::2]:
        assert (item["arguments"], item["execution"], item["status"]) == ({"query": "eta"}, "client", "completed")
    assert len({item["call_id"] for item in response["output"]}) == 4


def test_a_call_that_was_cut_off_is_incomplete() -> None:
    said = ids_of(TOKENIZER, *CALL[:2])
    response = play(*CALL[:2], tools=[WEATHER], max_output_tokens=len(said) - 3)
    assert (response["status"], kinds(response)) == ("incomplete", ["function_call"])
    assert response["output"][0]["status"] == "incomplete"


@pytest.mark.parametrize("is_lost", [False, True])
def test_shell_call_that_a_chat_server_did_not_finish_is_incomplete_and_empty(is_lost: bool) -> None:
    asked = turn("Hi", tools=[{"type": "shell"}], max_output_tokens=9)
    made = pipeline_of(reasoning_model(), asked, controls=ALL_CONTROLS, ids=SequentialIds(), level=Level.CHAT)
    batches = made.start()[0]
    batches += made.receive([ChatChunk([CallBegin("shell"), Arguments('{"commands": ["')])])
    if is_lost:
        batches += made.fail(EngineUnavailable("Gone."))
    else:
        batches += made.receive([ChatChunk([Arguments("rm " * 1_000)])])
        batches += made.finish(completed_at=9)
    response = fold([event for batch in batches for event in events.decode(batch.frames)])
    (item,) = response["output"]
    assert (item["type"], item["status"], item["action"]) == ("shell_call", "incomplete", {"commands": []})
    assert response["status"] == ("failed" if is_lost else "incomplete")


@pytest.mark.parametrize("each", [1, 100])
def test_response_with_more_items_than_a_request_may_send_back_ends_there(each: int) -> None:
    made = pipeline_of(reasoning_model(), turn("Hi"), controls=ALL_CONTROLS, ids=SequentialIds(), level=Level.CHAT)
    batches, chunk = made.start()[0], ChatChunk([CallBegin("f"), Arguments("{}"), CallEnd(is_complete=True)] * each)
    received = 0
    while not made.is_done and received < 2 * OUTPUT_ITEMS_MAX:
        batches += made.receive([chunk])
        received += each
    assert made.follow_up() is None
    batches += made.finish(completed_at=9)
    response = fold([event for batch in batches for event in events.decode(batch.frames)])
    assert OUTPUT_ITEMS_MAX < len(response["output"]) <= OUTPUT_ITEMS_MAX + each
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}


def test_response_with_cut_off_reasoning_is_incomplete_without_a_message() -> None:
    response = play("<think>", "Hm, hm, hm.", max_output_tokens=5)
    assert (response["status"], kinds(response)) == ("incomplete", ["reasoning"])


NAMED = {"type": "function", "name": "get_weather"}


@pytest.mark.parametrize(
    ("choice", "tools", "begun", "said"),
    [
        (NAMED, [WEATHER, EXEC], '{"name": "get_weather", "arguments": ', '{"city": "Rome"}}'),
        ("required", [WEATHER, EXEC], '{"name": "', 'get_weather", "arguments": {"city": "Rome"}}'),
    ],
)
def test_forced_call_is_begun_in_the_prompt_and_completed(
    choice: Any, tools: list[Object], begun: str, said: str
) -> None:
    request = {"tool_choice": choice, "tools": tools}
    made = pipeline_of(reasoning_model(), turn("Hi", **request), controls=ALL_CONTROLS, ids=SequentialIds())
    assert TOKENIZER.decode(ids_in(made.start()[1])).endswith("assistant\n<tool_call>\n" + begun)
    response = play(said, CALL[2], **request)
    (call,) = response["output"]
    assert (call["name"], loads(call["arguments"]), call["status"]) == ("get_weather", {"city": "Rome"}, "completed")
    assert response["usage"]["output_tokens"] == len(ids_of(TOKENIZER, said, CALL[2], "<|im_end|>"))


def test_lineage_of_a_forced_call_has_its_beginning_with_what_was_written() -> None:
    made = pipeline_of(
        reasoning_model(),
        turn("Hi", tools=[WEATHER], tool_choice="required"),
        controls=ALL_CONTROLS,
        ids=SequentialIds(),
    )
    _, request = made.start()
    made.receive([TokenChunk([5], finish=FinishReason.STOP)])
    final = made.finish(completed_at=9)[-1].final
    assert final is not None
    (lineage,) = turn_lineage.decode_rounds(final.lineage)
    assert lineage.prompt_tokens == len(made.plan.prompt.ids) < len(ids_in(request))
    assert [*made.plan.prompt.ids, *lineage.written_ids] == [*ids_in(request), 5]


def test_forced_call_of_a_family_without_forced_calls_is_rejected() -> None:
    with pytest.raises(InvalidRequest) as caught:
        pipeline_of(
            model(), turn("Hi", tools=[WEATHER], tool_choice="required"), controls=ALL_CONTROLS, ids=SequentialIds()
        )
    assert (caught.value.field, caught.value.code) == ("tool_choice", "unsupported_value")


def test_effort_none_yields_a_message_without_reasoning() -> None:
    response = play("Yes.", reasoning={"effort": "none"})
    assert kinds(response) == ["message"]
    assert response["usage"]["output_tokens_details"]["reasoning_tokens"] == 0


def test_calls_and_results_of_the_history_are_in_the_prompt() -> None:
    history: list[Object] = [
        {"id": "msg_1", "type": "message", "role": "user", "content": [{"type": "input_text", "text": "Rome?"}]},
        {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": '{"a": 1}'},
        {"id": "fco_1", "type": "function_call_output", "call_id": "call_1", "output": "Sunny."},
    ]
    made = pipeline_of(reasoning_model(), turn("Hi", history=history), controls=ALL_CONTROLS, ids=SequentialIds())
    prompt = TOKENIZER.decode(ids_in(made.start()[1]))
    assert '<tool_call>{"name": "get_weather", "arguments": {"a": 1}}</tool_call>' in prompt
    assert "<|im_start|>tool\nSunny.<|im_end|>" in prompt


@pytest.mark.parametrize(
    ("items", "words"),
    [
        ([{"type": "function_call_output", "call_id": "call_9", "output": "x"}], "No tool call found"),
        (
            [{"type": "function_call", "call_id": "call_9", "name": "f", "arguments": "{}"}],
            "No tool output found for function call call_9",
        ),
    ],
)
def test_call_without_a_result_or_result_without_a_call_is_rejected(items: list[Object], words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        play("x", history=items)
