from __future__ import annotations

from typing import Any

import pytest

from antiphon_core.ids import SequentialIds
from antiphon_core.items import normalise_input, page
from antiphon_core.jsons import dumps, loads
from antiphon_core.ports.store import Order


def test_a_string_becomes_a_user_message() -> None:
    (item,) = normalise_input("hello", SequentialIds())
    assert item == {
        "id": "msg_" + "1".rjust(48, "0"),
        "type": "message",
        "status": "completed",
        "role": "user",
        "content": [{"type": "input_text", "text": "hello"}],
    }


def test_an_assistants_string_becomes_output_text() -> None:
    (item,) = normalise_input([{"role": "assistant", "content": "hi"}], SequentialIds())
    assert item["content"] == [{"annotations": [], "logprobs": [], "type": "output_text", "text": "hi"}]


def test_given_members_are_kept_and_null_members_count_as_absent() -> None:
    given = {"id": "msg_mine", "role": "user", "content": "x", "status": None, "phase": None, "x_extra": {"a": 1}}
    (item,) = normalise_input([given], SequentialIds())
    assert (item["id"], item["status"], item["x_extra"]) == ("msg_mine", "completed", {"a": 1})
    assert "phase" not in item


def test_normalising_twice_changes_nothing() -> None:
    once = normalise_input([{"role": "assistant", "content": "hi"}, {"role": "user", "content": "x"}], SequentialIds())
    assert normalise_input(once, SequentialIds()) == once


ITEMS = dumps([{"id": f"msg_{number}"} for number in range(5)])


@pytest.mark.parametrize(
    ("after", "limit", "order", "ids", "has_more"),
    [
        (None, 2, Order.ASCENDING, ["msg_0", "msg_1"], True),
        ("msg_1", 2, Order.ASCENDING, ["msg_2", "msg_3"], True),
        ("msg_3", 2, Order.ASCENDING, ["msg_4"], False),
        ("msg_4", 2, Order.ASCENDING, [], False),
        (None, 2, Order.DESCENDING, ["msg_4", "msg_3"], True),
        ("msg_1", 2, Order.DESCENDING, ["msg_0"], False),
        (None, 5, Order.DESCENDING, ["msg_4", "msg_3", "msg_2", "msg_1", "msg_0"], False),
    ],
)
def test_a_page_of_items_has_the_expected_ids_and_bounds(
    after: str | None, limit: int, order: Order, ids: list[str], has_more: bool
) -> None:
    found: Any = page(ITEMS, after=after, limit=limit, order=order)
    assert [item["id"] for item in loads(found.items)] == ids
    assert found.has_more is has_more
    assert (found.first_id, found.last_id) == ((ids[0], ids[-1]) if ids else (None, None))


def test_a_page_after_an_unknown_item_is_none() -> None:
    assert page(ITEMS, after="msg_9", limit=2, order=Order.ASCENDING) is None


@pytest.mark.parametrize("order", [Order.ASCENDING, Order.DESCENDING])
@pytest.mark.parametrize("limit", [1, 2, 3])
@pytest.mark.parametrize("ids", ["a a b a c b", "a~2 a a b a a~2", "a a a~2 a~2 a~2~2 a"])
def test_pages_show_everything_once_where_an_id_stands_again(order: Order, limit: int, ids: str) -> None:
    entries = [{"id": name, "n": number} for number, name in enumerate(ids.split())]
    found: Any = page(dumps(entries), after=None, limit=limit, order=order)
    seen = loads(found.items)
    for _ in range(len(entries) // limit - 1):
        assert found.has_more is True
        found = page(dumps(entries), after=found.last_id, limit=limit, order=order)
        seen += loads(found.items)
    assert found.has_more is False
    assert seen == (entries if order is Order.ASCENDING else entries[::-1])


def test_appended_items_do_not_move_a_page() -> None:
    entries = [{"id": name} for name in "aab"]
    first: Any = page(dumps(entries), after=None, limit=2, order=Order.ASCENDING)
    grown = [*entries, {"id": "a"}, {"id": "b"}]
    rest: Any = page(dumps(grown), after=first.last_id, limit=9, order=Order.ASCENDING)
    assert loads(rest.items) == [{"id": "b"}, {"id": "a"}, {"id": "b"}]


def test_an_id_that_stands_twice_in_an_input_stays_with_the_first() -> None:
    given = [{"id": "msg_mine", "role": "user", "content": text} for text in "abc"]
    items = normalise_input(given, SequentialIds())
    assert [item["content"][0]["text"] for item in items] == ["a", "b", "c"]
    assert [item["id"] for item in items] == ["msg_mine", *("msg_" + digit.rjust(48, "0") for digit in "12")]


def test_null_members_of_parts_are_dropped() -> None:
    part = {"type": "output_text", "text": "x", "annotations": None, "logprobs": None, "more": None}
    image = {"type": "input_image", "image_url": "https://h/i.png", "detail": None}
    answer, question = normalise_input(
        [{"role": "assistant", "content": [part]}, {"role": "user", "content": [image]}], SequentialIds()
    )
    assert answer["content"] == [{"type": "output_text", "text": "x", "annotations": [], "logprobs": []}]
    assert question["content"] == [{"type": "input_image", "image_url": "https://h/i.png"}]


def test_one_extension_item_given_twice_gets_two_ids() -> None:
    note = {"type": "x-acme:note", "id": "note_1"}
    first, second = normalise_input([note, note], SequentialIds())
    assert first["id"] == "note_1" != second["id"]
