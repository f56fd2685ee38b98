from __future__ import annotations

from antiphon_core.jsons import loads
from antiphon_core.ports.store import ItemPage
from antiphon_edge.routes import answers


def test_object_and_its_bytes_give_the_same_answer() -> None:
    for body in ({"a": 1}, b'{"a":1}'):
        answer = answers.json(body, status=201)
        assert (answer.status, answer.body, answer.content_type) == (201, b'{"a":1}', "application/json")


def test_a_page_of_items_looks_like_openais() -> None:
    answer = answers.item_page(ItemPage(items=b'[{"id":"a"}]', first_id="a", last_id="a", has_more=True))
    assert isinstance(answer.body, bytes)
    assert loads(answer.body) == {
        "object": "list",
        "data": [{"id": "a"}],
        "first_id": "a",
        "last_id": "a",
        "has_more": True,
    }
