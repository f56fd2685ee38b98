from __future__ import annotations

from antiphon_core.ports.lineage import ResolvedItem
from antiphon_store.engine.item_search import pick


def test_wanted_items_are_picked_from_input_and_output() -> None:
    found = pick("resp_1", (b'[{"id":"a"},{"id":"b"}]', b'[{"id":"c","n":1}]'), {"a", "c", "d"})
    assert found == {
        "a": ResolvedItem("a", "resp_1", b'{"id":"a"}'),
        "c": ResolvedItem("c", "resp_1", b'{"id":"c","n":1}'),
    }


def test_the_first_of_two_with_one_id_counts() -> None:
    found = pick("resp_1", (b'[{"id":"a","n":1},{"id":"a","n":2}]', b'[{"id":"a","n":3}]'), {"a"})
    assert found["a"].item == b'{"id":"a","n":1}'
