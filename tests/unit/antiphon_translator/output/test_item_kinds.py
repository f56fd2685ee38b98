from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_core import events
from antiphon_core.fold import fold
from antiphon_core.jsons import Object, dumps, loads
from antiphon_translator.output import item_kinds
from antiphon_translator.output.item_kinds import (
    CUSTOM_TOOL_CALL,
    FUNCTION_CALL,
    MESSAGE,
    REASONING,
    REASONING_SUMMARY,
    ItemKind,
    OpenItem,
)

CALL = {"call_id": "call_1", "name": "f"}
ITEM_KINDS: list[tuple[ItemKind, Object]] = [
    (MESSAGE, {"phase": "commentary"}),
    (REASONING, {}),
    (REASONING_SUMMARY, {}),
    (FUNCTION_CALL, CALL),
    (CUSTOM_TOOL_CALL, CALL | {"namespace": "n"}),
]
each_kind = pytest.mark.parametrize(("kind", "members"), ITEM_KINDS)


def a_message() -> OpenItem:
    return OpenItem(MESSAGE, "msg_1", output_index=3)


def read(value: object) -> Any:
    """The value of which fragments of JSON are parts."""
    return loads(dumps(value))


def test_delta_frame_has_all_members_of_its_event() -> None:
    item = a_message()
    (event,) = events.decode(item.append('per cent: 100%d "\n', 17))
    assert event == {
        "type": "response.output_text.delta",
        "item_id": "msg_1",
        "output_index": 3,
        "content_index": 0,
        "sequence_number": 17,
        "delta": 'per cent: 100%d "\n',
        "logprobs": [],
    }


@given(st.text(st.characters(exclude_categories=["Cs"])), st.integers(0, 2**40))
def test_delta_frame_keeps_any_text_and_sequence_number(text: str, number: int) -> None:
    (event,) = events.decode(a_message().append(text, number))
    assert (event["delta"], event["sequence_number"]) == (text, number)


def test_delta_frame_keeps_an_id_with_a_percent_sign() -> None:
    (event,) = events.decode(OpenItem(MESSAGE, "msg_%d%%", output_index=0).append("x", 1))
    assert event["item_id"] == "msg_%d%%"


def test_text_of_an_item_is_its_joined_deltas() -> None:
    item = a_message()
    assert read(item.text) == ""
    for piece in ("a", "", "b"):
        item.append(piece, 0)
    assert read(item.as_object())["content"][0]["text"] == "ab"
    item.append("c", 0)
    item.close("completed")
    assert read(item.text) == read(item.as_object())["content"][0]["text"] == "abc"


def test_deltas_of_a_text_do_not_stay_in_memory() -> None:
    item = a_message()
    tracemalloc.start()
    try:
        for number in range(10_000, 11_000):
            item.append(f"{number}", 0)
        assert tracemalloc.get_traced_memory()[0] < 20 * 1_000
    finally:
        tracemalloc.stop()


def test_message_item_has_all_members() -> None:
    item = a_message()
    item.close("completed")
    assert read(item.as_object()) == {
        "id": "msg_1",
        "type": "message",
        "status": "completed",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "", "annotations": [], "logprobs": []}],
    }


@each_kind
def test_every_item_kind_opens_with_added_and_closes_with_done(kind: ItemKind, members: Object) -> None:
    item = OpenItem(kind, "x_1", output_index=0, members=members)
    added, done = kind.opening[0](item), kind.closing[-1](item)
    assert (added["type"], done["type"]) == (events.OUTPUT_ITEM_ADDED, events.OUTPUT_ITEM_DONE)
    assert added["item"]["status"] == "in_progress"
    assert all(added["item"][name] == done["item"][name] == value for name, value in members.items())


@each_kind
def test_folded_events_of_an_item_equal_the_item(kind: ItemKind, members: Object) -> None:
    item = OpenItem(kind, "x_1", output_index=0, members=members)
    log: list[Object] = [{"type": events.CREATED, "response": {"output": []}}]
    log += read([build(item) for build in kind.opening])
    assert fold(log)["output"] == [read(item.as_object())]
    for number, piece in enumerate(("a", "ü", '"')):
        log += events.decode(item.append(piece, number))
        assert fold(log)["output"] == [read(item.as_object())]
    item.close("completed")
    log += read([build(item) for build in kind.closing])
    assert fold(log)["output"] == [read(item.as_object())]


def test_text_is_written_as_json_once(monkeypatch: pytest.MonkeyPatch) -> None:
    item, pieces = a_message(), ['say "hi"\n', "\U0001f642"]
    written: list[object] = []

    def recorded(value: object) -> bytes:
        written.append(value)
        return dumps(value)

    monkeypatch.setattr(item_kinds, "dumps", recorded)
    for number, piece in enumerate(pieces):
        item.append(piece, number)
    item.close("completed")
    closing = read([build(item) for build in MESSAGE.closing])
    assert written == pieces
    assert closing[0]["text"] == "".join(pieces)


LOGPROB = {"token": "x", "logprob": -0.5, "bytes": [120], "top_logprobs": []}


def test_log_probabilities_are_in_the_deltas_and_the_done_events() -> None:
    item = a_message()
    log: list[Object] = [{"type": events.CREATED, "response": {"output": []}}]
    item.output_index = 0
    log += read([build(item) for build in MESSAGE.opening])
    for number, tokens in enumerate(([LOGPROB], [], [LOGPROB, LOGPROB])):
        (event,) = events.decode(item.append_scored("x" * len(tokens), tokens, number))
        log.append(event)
        assert list(event) == list(events.decode(item.append("", 0))[0])
        assert (event["delta"], event["logprobs"], event["sequence_number"]) == ("x" * len(tokens), tokens, number)
        assert fold(log)["output"] == [read(item.as_object())]
    text_done, part_done, item_done = read([build(item) for build in MESSAGE.closing])
    assert text_done["logprobs"] == [LOGPROB] * 3
    assert part_done["part"]["logprobs"] == item_done["item"]["content"][0]["logprobs"] == [LOGPROB] * 3


def test_events_of_a_summary_have_the_order_of_the_api() -> None:
    item = OpenItem(REASONING_SUMMARY, "rs_1", output_index=0)
    log = [build(item) for build in REASONING_SUMMARY.opening]
    log += events.decode(item.append("Hm.", 2))
    item.close("completed")
    log += read([build(item) for build in REASONING_SUMMARY.closing])
    assert [event["type"] for event in log] == [
        "response.output_item.added",
        "response.reasoning_summary_part.added",
        "response.reasoning_summary_text.delta",
        "response.reasoning_summary_text.done",
        "response.reasoning_summary_part.done",
        "response.output_item.done",
    ]
    assert [event.get("summary_index") for event in log] == [None, 0, 0, 0, 0, None]
    summary = [{"type": "summary_text", "text": "Hm."}]
    assert read(item.as_object()) == {
        "id": "rs_1",
        "type": "reasoning",
        "status": "completed",
        "summary": summary,
        "content": [],
    }


def test_arguments_of_a_call_are_kept_as_written() -> None:
    item = OpenItem(FUNCTION_CALL, "fc_1", output_index=2, members=CALL)
    item.append('{"a": 1}', 5)
    item.close("completed")
    assert read([build(item) for build in FUNCTION_CALL.closing]) == [
        {
            "type": "response.function_call_arguments.done",
            "item_id": "fc_1",
            "output_index": 2,
            "name": "f",
            "arguments": '{"a": 1}',
        },
        {"type": "response.output_item.done", "output_index": 2, "item": read(item.as_object())},
    ]
    assert read(item.as_object()) == {
        "id": "fc_1",
        "type": "function_call",
        "status": "completed",
        "arguments": '{"a": 1}',
        **CALL,
    }
