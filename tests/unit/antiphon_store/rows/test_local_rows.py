"""The fields of a changed row. tests/contract/store/test_rows.py tests programs on every backend."""

from __future__ import annotations

from antiphon_store.rows.local_rows import change_fields
from antiphon_store.rows.model import Add, Now


def test_a_change_resolves_values_keeps_other_fields_and_counts() -> None:
    new = change_fields({"v": 3, "fence": 4, "kept": "k"}, {"fence": Add(2), "until": Now(50), "head": None}, 100)
    assert new == {"v": 4, "fence": 6, "kept": "k", "until": 150, "head": None}


def test_an_addition_to_a_missing_row_starts_at_zero() -> None:
    assert change_fields(None, {"fence": Add(1)}, 100) == {"fence": 1, "v": 1}
