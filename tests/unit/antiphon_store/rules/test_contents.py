"""Checks of JSON. The suites of arguments in `antiphon_store.testing` test the fields that errors name."""

from __future__ import annotations

import pytest

from antiphon_core.errors import InvalidRequest
from antiphon_core.ids import SequentialIds
from antiphon_core.jsons import loads
from antiphon_core.limits import RECORD_VALUES_MAX
from antiphon_store.rules import contents as rules
from antiphon_store.testing.subject import draft


def test_an_item_without_an_id_is_rejected() -> None:
    rules.check_record(draft(input_items=b'[{"id":"a"},{"id":"b"}]'))
    with pytest.raises(InvalidRequest, match=r"input_items\[1\].id") as caught:
        rules.check_record(draft(input_items=b'[{"id":"a"},{}]'))
    assert caught.value.code == "invalid_type"


@pytest.mark.parametrize(
    ("given", "tight"),
    [
        (b"[]", b"[]"),
        (b"[ ]", b"[]"),
        (b' [{"id":"a b"}]\n', b'[{"id":"a b"}]'),
        (b'[ {"id":"a"}, {"id":"b"}\t]', b'[{"id":"a"}, {"id":"b"}]'),
    ],
)
def test_tight_arrays_have_no_white_space_at_their_ends(given: bytes, tight: bytes) -> None:
    record, _ids = rules.check_record(draft(input_items=given, output_items=given))
    assert (record.input_items, record.output_items) == (tight, tight)


def test_a_record_without_outer_white_space_is_not_copied() -> None:
    record = draft()
    assert rules.check_record(record)[0] is record


def test_metadata_is_stored_without_white_space() -> None:
    assert rules.parse_metadata(b' { "a" : "\xc3\xbc" } ') == b'{"a":"\xc3\xbc"}'


def test_ids_are_given_to_items_that_lack_one() -> None:
    entries = rules.parse_items(b'[{"id":"a","x":1},{"type":"reasoning","id":null},{"type":7}]')
    first, second, third = loads(rules.with_ids(entries, SequentialIds(), f"conv_{48 * '7'}"))
    assert first == {"id": "a", "x": 1}
    assert second["id"].startswith("rs_7777777777777777")
    assert third["id"].startswith("item_7777777777777777")
    assert (second["type"], third["type"]) == ("reasoning", 7)


def test_given_ids_are_returned_only_if_every_item_has_one() -> None:
    assert rules.given_ids([{"id": "a"}, {"id": "b"}]) == ["a", "b"]
    assert rules.given_ids([{"id": "a"}, {"id": None}]) is None
    assert rules.given_ids([{}]) is None


def test_output_may_have_log_probabilities_of_thousands_of_tokens() -> None:
    """More values than a request may have."""
    most = b"[" + b",".join([b"1"] * (RECORD_VALUES_MAX - 10)) + b"]"
    assert "a" in rules.check_record(draft(output_items=b'[{"id":"a","logprobs":%b}]' % most))[1]
    with pytest.raises(InvalidRequest, match=f"more than {RECORD_VALUES_MAX} values"):
        rules.check_record(draft(output_items=b'[{"id":"a","logprobs":%b}]' % most.replace(b"1", b"[1]", 10)))
