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


def test_what_the_client_gave_is_kept_and_null_counts_as_absent() -> None:
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
def test_pages(after: str | None, limit: int, order: Order, ids: list[str], has_more: bool) -> None:
    found: Any = page(ITEMS, after=after, limit=limit, order=order)
    assert [item["id"] for item in loads(found.items)] == ids
    assert found.has_more is has_more
    assert (found.first_id, found.last_id) == ((ids[0], ids[-1]) if ids else (None, None))


def test_a_page_after_a_stranger_is_none() -> None:
    assert page(ITEMS, after="msg_9", limit=2, order=Order.ASCENDING) is None


@pytest.mark.parametrize("order", [Order.ASCENDING, Order.DESCENDING])
def test_pages_come_to_an_end_where_an_id_stands_twice(order: Order) -> None:
    items = dumps([{"id": "a", "n": 1}, {"id": "b", "n": 2}, {"id": "a", "n": 3}, {"id": "c", "n": 4}])
    found: Any = page(items, after=None, limit=1, order=order)
    seen = loads(found.items)
    for _ in range(2):
        found = page(items, after=found.last_id, limit=1, order=order)
        seen += loads(found.items)
    assert found.has_more is False
    expected = [{"id": "a", "n": 1}, {"id": "b", "n": 2}, {"id": "c", "n": 4}]
    assert seen == (expected if order is Order.ASCENDING else expected[::-1])
