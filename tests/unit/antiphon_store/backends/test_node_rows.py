from __future__ import annotations

from typing import Any

import pytest

from antiphon_core.errors import InternalError
from antiphon_core.ports.store import Record, Status
from antiphon_store.backends import node_rows, packing
from antiphon_store.testing.subject import content, draft

PLACE = 7 << 24


def row_of(record: Record, place: int = PLACE) -> list[Any]:
    """The record as `read_node` of any SQL engine gives it."""
    items, input_bytes = packing.pack(record.input_items, record.output_items)
    head = [record.id, record.parent_id, record.session_id, record.status.value, 1, place, 10, 11, None]
    sums = [packing.checksum(record.id, input_bytes, items), packing.body_checksum(record.id, record.body)]
    return [*head, *sums, input_bytes, items, record.body]


def test_a_record_comes_back_as_it_was() -> None:
    record = draft(draft(), session_id="s", status=Status.FAILED)
    found = node_rows.to_record(row_of(record, PLACE + 3))
    assert content(found) == content(record)
    assert (found.version, found.depth, found.created_at_ms, found.updated_at_ms) == (1, 3, 10, 11)


@pytest.mark.parametrize("column", [0, -3, -2, -1])
def test_damage_is_noticed_and_the_response_named(column: int) -> None:
    row = row_of(draft())
    row[column] = row[column] + (1 if column == -3 else row[column][:1])
    with pytest.raises(InternalError, match=f"bytes of '{row[0]}' are damaged"):
        node_rows.to_record(row)
