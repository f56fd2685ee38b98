"""The row of a response: writing and reading, expiry, and damage."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_core.errors import InternalError
from antiphon_core.jsons import dumps, join_arrays
from antiphon_core.ports.store import Stamp, Status
from antiphon_store.decisions import nodes
from antiphon_store.rows.model import ChainRows, Index, Now, Row
from antiphon_store.testing.conversations import array, names_in
from antiphon_store.testing.subject import content, draft
from tests.support.rows import chain_rows, node

RESPONSE = f"resp_{48 * 'a'}"
RECORD = draft(draft(), session_id="s", status=Status.IN_PROGRESS)

arrays = st.lists(st.fixed_dictionaries({"id": st.text("a,[]", max_size=3)}), max_size=3).map(dumps)


@pytest.mark.parametrize(
    ("item_id", "index"),
    [
        (f"msg_{16 * 'a'}{32 * '0'}", Index.ITEM),
        (f"msg_{16 * 'b'}{32 * '0'}", Index.FOREIGN),
        ("msg_1", Index.FOREIGN),
        (RESPONSE.removeprefix("resp_"), Index.FOREIGN),
    ],
)
def test_an_item_is_indexed_in_its_tree_if_its_id_has_the_tag(item_id: str, index: Index) -> None:
    assert nodes.item_index(item_id, RESPONSE) is index


@pytest.mark.parametrize("inputs", [array(), array("a"), array("a", "b")])
@pytest.mark.parametrize("outputs", [array(), array("c")])
def test_a_record_comes_back_as_it_was_written(inputs: bytes, outputs: bytes) -> None:
    record = replace(RECORD, input_items=inputs, output_items=outputs)
    found = nodes.to_record(record.id, node(record, version=3, depth=2, expires=30))
    assert content(found) == content(record)
    assert (found.version, found.depth, found.created_at_ms, found.updated_at_ms) == (3, 2, 10, 20)
    assert found.expires_at_ms == 30
    assert nodes.stamp_of(node(record, version=3)) == Stamp(3, 0, 10, 20)
    assert nodes.item_ids(node(record)) == names_in(inputs) + names_in(outputs)


def test_the_expiry_of_a_node_counts_from_its_write() -> None:
    assert nodes.write_node(RECORD, ttl_ms=5)[0]["expires"] == Now(5)
    assert nodes.write_node(RECORD)[0]["expires"] is None


@pytest.mark.parametrize(
    ("expires", "deleted", "readable"),
    [(None, 0, True), (101, 0, True), (100, 0, False), (99, 0, False), (None, 1, False), (101, 1, False)],
)
def test_a_node_is_unreadable_once_expired_or_deleted(expires: int | None, deleted: int, readable: bool) -> None:
    assert nodes.is_readable(node(RECORD, expires=expires, deleted=deleted), 100) is readable
    assert not nodes.is_readable(None, 100)


def test_an_item_id_that_occurs_twice_is_listed_once() -> None:
    assert nodes.item_ids(node(replace(RECORD, input_items=array("a", "b"), output_items=array("a")))) == ["a", "b"]


def test_a_chain_is_joined_in_its_order() -> None:
    records = [replace(RECORD, id=name, input_items=array(name), output_items=array()) for name in "abc"]
    chain = chain_rows([(each.id, node(each)) for each in records])
    assert names_in(nodes.joined_items(chain)) == ["a", "b", "c"]
    assert nodes.joined_items(ChainRows()) == b"[]"
    assert [content(each) for each in nodes.to_records(chain)] == [content(each) for each in records]


def test_a_changed_or_exchanged_payload_raises_an_internal_error() -> None:
    good = node(RECORD)
    damaged = [good._replace(items=good.items[:-1] + b"!"), good._replace(body=b"{}")]
    for each in damaged:
        with pytest.raises(InternalError):
            nodes.to_record(RECORD.id, each)
    with pytest.raises(InternalError):
        nodes.to_record("another", good)
    with pytest.raises(InternalError):
        nodes.joined_items(chain_rows([(RECORD.id, damaged[0])]))


@pytest.mark.parametrize("damaged", [node(RECORD)._replace(items=b"{}"), node(RECORD)._replace(body=b"[]")])
def test_a_damaged_node_fails_its_chain(damaged: Row) -> None:
    with pytest.raises(InternalError):
        nodes.to_records(chain_rows([(RECORD.id, node(RECORD)), (RECORD.id, damaged)]))


def test_a_record_read_from_a_row_is_frozen_and_equal_to_a_constructed_one() -> None:
    found = nodes.to_record(RECORD.id, node(RECORD))
    assert found == replace(found)
    assert hash(found) == hash(replace(found))
    with pytest.raises(FrozenInstanceError):
        found.version = 2  # type: ignore[misc]


@given(arrays, arrays)
def test_unpacking_restores_packed_arrays(first: bytes, second: bytes) -> None:
    items, input_bytes = nodes.pack(first, second)
    assert nodes.unpack(items, input_bytes) == (first, second)


@given(st.lists(st.tuples(arrays, arrays)))
def test_joining_packs_joins_their_arrays(turns: list[tuple[bytes, bytes]]) -> None:
    packed = [nodes.pack(first, second)[0] for first, second in turns]
    assert nodes.join(packed) == join_arrays(array for turn in turns for array in turn)


@pytest.mark.parametrize(
    ("first", "second", "packed"),
    [(b"[]", b"[]", (b"", 0)), (b"[1]", b"[]", (b"1", 1)), (b"[]", b"[2]", (b"2", 0)), (b"[1]", b"[2]", (b"1,2", 1))],
)
def test_the_packed_form_is_stored_and_must_not_change(first: bytes, second: bytes, packed: tuple[bytes, int]) -> None:
    assert nodes.pack(first, second) == packed


def test_checksums_differ_when_any_part_differs() -> None:
    checksums = {
        nodes.checksum("resp_a", 1, b"1,2"),
        nodes.checksum("resp_b", 1, b"1,2"),
        nodes.checksum("resp_a", 3, b"1,2"),
        nodes.checksum("resp_a", 1, b"1,3"),
    }
    assert len(checksums) == 4
    assert len({nodes.body_checksum(each, b"{}") for each in checksums}) == 4
    assert nodes.body_checksum(1, b"{}") != nodes.body_checksum(1, b"[]")
