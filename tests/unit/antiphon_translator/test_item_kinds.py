from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from antiphon_core import events
from antiphon_translator.item_kinds import MESSAGE, ItemKind, OpenItem

ITEM_KINDS: list[ItemKind] = [MESSAGE]


def a_message() -> OpenItem:
    return OpenItem(MESSAGE, "msg_1", output_index=3)


def test_a_delta_frame_is_the_frame_of_its_event() -> None:
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
def test_any_text_and_number_survive_the_frame(text: str, number: int) -> None:
    (event,) = events.decode(a_message().append(text, number))
    assert (event["delta"], event["sequence_number"]) == (text, number)


def test_an_id_with_a_per_cent_sign_survives() -> None:
    (event,) = events.decode(OpenItem(MESSAGE, "msg_%d%%", output_index=0).append("x", 1))
    assert event["item_id"] == "msg_%d%%"


def test_the_text_of_an_item_is_the_sum_of_its_deltas() -> None:
    item = a_message()
    assert item.text == ""
    for piece in ("a", "", "b"):
        item.append(piece, 0)
    assert item.text == "ab"
    item.append("c", 0)
    assert item.as_object()["content"][0]["text"] == "abc"


def test_a_kind_names_its_ids_and_fills_all_members_of_a_message() -> None:
    item = a_message()
    item.status = "completed"
    assert item.as_object() == {
        "id": "msg_1",
        "type": "message",
        "status": "completed",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "", "annotations": [], "logprobs": []}],
    }


def test_every_kind_opens_with_added_and_closes_with_done() -> None:
    for kind in ITEM_KINDS:
        item = OpenItem(kind, "x_1", output_index=0)
        assert kind.opening[0](item)["type"] == events.OUTPUT_ITEM_ADDED
        assert kind.opening[0](item)["item"]["status"] == "in_progress"
        assert kind.closing[-1](item)["type"] == events.OUTPUT_ITEM_DONE
