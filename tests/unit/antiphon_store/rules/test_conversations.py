from __future__ import annotations

from antiphon_core.ids import SequentialIds
from antiphon_core.jsons import loads
from antiphon_store.rules import conversations as rules


def test_metadata_is_stored_without_white_space() -> None:
    assert rules.parse_metadata(b' { "a" : "\xc3\xbc" } ') == b'{"a":"\xc3\xbc"}'


def test_ids_are_given_to_items_that_lack_one() -> None:
    entries = rules.parse_items(b'[{"id":"a","x":1},{"type":"reasoning","id":null},{"type":7}]')
    first, second, third = loads(rules.with_ids(entries, SequentialIds()))
    assert first == {"id": "a", "x": 1}
    assert second["id"].startswith("rs_")
    assert third["id"].startswith("item_")
    assert (second["type"], third["type"]) == ("reasoning", 7)


def test_items_are_known_by_their_ids_when_all_have_one() -> None:
    assert rules.given_ids([{"id": "a"}, {"id": "b"}]) == ["a", "b"]
    assert rules.given_ids([{"id": "a"}, {"id": None}]) is None
    assert rules.given_ids([{}]) is None
