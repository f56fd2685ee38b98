from __future__ import annotations

from collections.abc import Iterator

import pytest

from antiphon_core.errors import LimitExceeded
from antiphon_core.ports.store import Record
from antiphon_store.engine import slices
from antiphon_store.testing.subject import draft

RECORDS = [draft(body=b"x" * 10, input_items=b"[]", output_items=b"[]") for _ in range(4)]  # 14 bytes each


@pytest.mark.parametrize(
    ("limit", "max_bytes", "taken"), [(4, 1000, 4), (2, 1000, 2), (4, 42, 3), (4, 41, 2), (4, 1, 1), (1, 1, 1)]
)
def test_a_slice_is_bounded_by_count_and_bytes(limit: int, max_bytes: int, taken: int) -> None:
    found = slices.take_records(RECORDS, limit=limit, max_bytes=max_bytes)
    assert found.values == RECORDS[:taken]
    assert found.has_more is (taken < len(RECORDS))


def test_no_more_is_read_than_needed() -> None:
    drawn = []

    def draw() -> Iterator[Record]:
        for record in RECORDS:
            drawn.append(record)
            yield record

    slices.take_records(draw(), limit=2, max_bytes=1000)
    assert len(drawn) == 3


def test_a_budget_holds_to_the_last_byte() -> None:
    budget = slices.ByteBudget(10, field="ids")
    budget.use(10)
    with pytest.raises(LimitExceeded) as caught:
        budget.use(1)
    assert (caught.value.field, caught.value.facts["limit"]) == ("ids", "10 bytes")


def test_a_walk_has_an_end() -> None:
    slices.require_nodes("resp_1", 5, max_nodes=5)
    with pytest.raises(LimitExceeded, match="More than 5 responses"):
        slices.require_nodes("resp_1", 6, max_nodes=5)
